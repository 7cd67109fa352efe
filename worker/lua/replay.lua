-- Moves dead letters back into the inbox. Each move is one step, so that a message is in exactly one of
-- the two streams wherever the replay ends.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  inbox (stream)
-- KEYS[3]  the replay's run (hash)
-- KEYS[4]  corrections (stream)
-- ARGV[1]  how many entries the inbox may hold; while it holds as many, nothing is moved, so that live
--          matches never wait behind more than this
-- ARGV[2]  now in ms
-- then for each dead letter: its id, what goes with the message (JSON, the inbox field `replay`), and
-- its history (JSON; '' when nobody has changed it)
--
-- Returns the id of each in the inbox, in the order given, '' for one that is no longer there; it ends
-- where the inbox is full.
--
-- Writes: all keys; in the run the field of each letter, 'moved <inbox id>', until the commit script
-- puts the outcome there; the histories of changed letters into the corrections, since a letter that is
-- rated is gone.

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

local moved, count = {}, 0
for i = 3, #ARGV, 3 do
  if count >= room then break end
  local id, replay, history = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local entry = redis.call('XRANGE', letters, id, id)[1]
  local message = entry and message_of(entry)
  if message then
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
end
if count > 0 then redis.call('EXPIRE', run, 604800) end
return moved
