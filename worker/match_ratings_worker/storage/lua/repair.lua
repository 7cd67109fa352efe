-- Puts right what follows from the ratings of some players: leaderboard, open periods and windows. Never
-- touches a rating. A player whose sequence is not the one given has moved meanwhile and is left alone.
--
-- KEYS[1]  leaderboard (sorted set)
-- KEYS[2]  players with an open rating period (sorted set)
-- KEYS[3]  prefix of the players (hashes)
-- KEYS[4]  prefix of the games (sorted sets)
-- ARGV[1]  ms for which a player's games are kept after the last day with one
-- then for each player: player, sequence as read ('' when none is stored), leaderboard score ('' when not
-- listed), end of the open period in ms ('' when none is open), and the window: from when on it is made
-- anew (ms; '' when it stays), number of games n, n times: finished_at in ms, match id
--
-- Returns for each player 1 done, 0 left alone.
--
-- Writes: all keys above but the players.

local at = 1
local function take()
  at = at + 1
  return ARGV[at]
end

local function place(key, player, score)
  if score == '' then redis.call('ZREM', key, player) else redis.call('ZADD', key, score, player) end
end

local done = {}
while at < #ARGV do
  local player, sequence, score, closes_at, from = take(), take(), take(), take(), take()
  local games = {}
  for i = 1, 2 * tonumber(take()) do games[i] = take() end
  if (redis.call('HGET', KEYS[3] .. player, 'sequence') or '') == sequence then
    place(KEYS[1], player, score)
    place(KEYS[2], player, closes_at)
    if from ~= '' then
      local key = KEYS[4] .. player
      redis.call('ZREMRANGEBYSCORE', key, from, '+inf')
      for i = 1, #games, 2 do redis.call('ZADD', key, games[i], games[i + 1]) end
      redis.call('PEXPIRE', key, ARGV[1])
    end
    done[#done + 1] = 1
  else
    done[#done + 1] = 0
  end
end
return done
