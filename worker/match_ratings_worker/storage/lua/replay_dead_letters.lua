-- Moves dead letters back into the inbox, each in one step, so that a message is in exactly one of the two
-- streams wherever a replay stops.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  inbox (stream)
-- KEYS[3]  the replay's run (hash)
-- KEYS[4]  corrections (stream)
-- KEYS[5]  prefix of the games (sorted sets)
-- ARGV[1]  the most entries that the inbox may hold; nothing is moved into a full one, so that live matches
--          never wait behind more than this
-- ARGV[2]  now in ms
-- ARGV[3]  ms for which a player's games are kept
-- then for each dead letter: its id, the inbox field `replay` (JSON), its history (JSON; '' when nobody has
-- changed it), the number of games that must be in the windows when it is rated, and for each of these
-- player, match id, finished_at in ms
--
-- Returns the inbox id of each, in the order given, '' for one that is no longer there; fewer when the inbox
-- is full.
--
-- Writes: all keys; the run gets for each letter 'moved <inbox id>', which commit_batch.lua replaces by
-- the outcome; the corrections get the histories of changed letters, since a rated letter is gone; the
-- given games, which had left the windows only because of their age, return to them.

local RUN_SECONDS = 7 * 86400  -- for which the outcomes of a replay are kept
local dead_letters, inbox, run, corrections, games_ = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local most, now, keep_games = tonumber(next_arg()), next_arg(), next_arg()
local room = most - redis.call('XLEN', inbox)

-- A key that holds another type must stop this script before the first write.
redis.call('XLEN', corrections)
redis.call('HLEN', run)

local function restore_game(player, match_id, finished_at)
  local key = games_ .. player
  redis.pcall('ZADD', key, 'NX', finished_at, match_id)
  if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, keep_games) end
end

local moved, count = {}, 0
while position < #ARGV and count < room do
  local id, replay, history, games = next_arg(), next_arg(), next_arg(), tonumber(next_arg())
  local first = position
  position = position + 3 * games
  local entry = redis.call('XRANGE', dead_letters, id, id)[1]
  local message = entry and field_of(entry, 'message')
  if message then
    for i = first + 1, position, 3 do restore_game(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
    local inbox_id = redis.call('XADD', inbox, '*', 'message', message, 'replay', replay)
    redis.call('XDEL', dead_letters, id)
    redis.call('HSET', run, id, 'moved ' .. inbox_id)
    if history ~= '' then
      redis.call('XADD', corrections, '*', 'letter', id, 'source_id', inbox_id, 'at', now, 'history', history)
    end
    count = count + 1
    moved[#moved + 1] = inbox_id
  else
    moved[#moved + 1] = ''
  end
end
if count > 0 then redis.call('EXPIRE', run, RUN_SECONDS) end
return moved
