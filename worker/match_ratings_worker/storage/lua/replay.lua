-- Moves dead letters back into the inbox. Each move is one step, so that a message is in exactly one of
-- the two streams wherever the replay ends.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  inbox (stream)
-- KEYS[3]  the replay's run (hash)
-- KEYS[4]  corrections (stream)
-- KEYS[5]  prefix of the games (sorted sets)
-- ARGV[1]  how many entries the inbox may hold; while it holds as many, nothing is moved, so that live
--          matches never wait behind more than this
-- ARGV[2]  now in ms
-- ARGV[3]  ms for which a player's games are kept
-- then for each dead letter: its id, what goes with the message (JSON, the inbox field `replay`), its
-- history (JSON; '' when nobody has changed it), the number of games that have to be in the windows
-- when it is rated, and for each of these player, match id, finished_at in ms
--
-- Returns the id of each in the inbox, in the order given, '' for one that is no longer there; it ends
-- where the inbox is full.
--
-- Writes: all keys; in the run the field of each letter, 'moved <inbox id>', until the commit script
-- puts the outcome there; the histories of changed letters into the corrections, since a letter that is
-- rated is gone; the given games, which had left their players' only because they are so old.

local letters, inbox, run, corrections = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local room = tonumber(ARGV[1]) - redis.call('XLEN', inbox)

-- A key that holds something else must stop us before the first write.
redis.call('XLEN', corrections)
redis.call('HLEN', run)

local function message_of(entry)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'message' then return entry[2][i + 1] end
  end
end

local function put_back(first, number)
  for i = first, first + 3 * (number - 1), 3 do
    local key = KEYS[5] .. ARGV[i]
    redis.pcall('ZADD', key, 'NX', ARGV[i + 2], ARGV[i + 1])
    if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, ARGV[3]) end
  end
end

local moved, count, at = {}, 0, 4
while at < #ARGV and count < room do
  local id, replay, history, games = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local entry = redis.call('XRANGE', letters, id, id)[1]
  local message = entry and message_of(entry)
  if message then
    put_back(at + 4, games)
    local inbox_id = redis.call('XADD', inbox, '*', 'message', message, 'replay', replay)
    redis.call('XDEL', letters, id)
    redis.call('HSET', run, id, 'moved ' .. inbox_id)
    if history ~= '' then
      redis.call('XADD', corrections, '*', 'letter', id, 'source_id', inbox_id, 'at', ARGV[2], 'history', history)
    end
    count = count + 1
    moved[#moved + 1] = inbox_id
  else
    moved[#moved + 1] = ''
  end
  at = at + 4 + 3 * games
end
if count > 0 then redis.call('EXPIRE', run, 604800) end
return moved
