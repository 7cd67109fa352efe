-- Repairs data derived from ratings: leaderboard, open periods and windows. Never touches a rating. A player
-- whose sequence has changed since it was read is skipped.
--
-- KEYS[1]  leaderboard (sorted set)
-- KEYS[2]  open rating periods (sorted set)
-- KEYS[3]  prefix of the players (hashes)
-- KEYS[4]  prefix of the games (sorted sets)
-- ARGV[1]  ms for which a player's games are kept
-- then for each player: player, sequence as read ('' when none is stored), leaderboard score ('' when not
-- listed), end of the open period in ms ('' when none is open), and the window: the time in ms from which
-- on it is rewritten ('' when it stays), number of games n, n times: finished_at in ms, match id
--
-- Returns for each player 1 (done) or 0 (skipped).
--
-- Writes: all keys above but the players.

local leaderboard, open_periods, player_, games_ = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local keep_games = next_arg()

local function set_score(key, player, score)
  if score == '' then redis.call('ZREM', key, player) else redis.call('ZADD', key, score, player) end
end

local done = {}
while position < #ARGV do
  local player, sequence, score, closes_at, from = next_arg(), next_arg(), next_arg(), next_arg(), next_arg()
  local games = {}
  for i = 1, 2 * tonumber(next_arg()) do games[i] = next_arg() end
  if (redis.call('HGET', player_ .. player, 'sequence') or '') == sequence then
    set_score(leaderboard, player, score)
    set_score(open_periods, player, closes_at)
    if from ~= '' then
      local key = games_ .. player
      redis.call('ZREMRANGEBYSCORE', key, from, '+inf')
      for i = 1, #games, 2 do redis.call('ZADD', key, games[i], games[i + 1]) end
      redis.call('PEXPIRE', key, keep_games)
    end
    done[#done + 1] = 1
  else
    done[#done + 1] = 0
  end
end
return done
