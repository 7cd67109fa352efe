-- Replaces a dead letter by an edited one, in one step. Entries of a stream cannot be changed, so the edited
-- letter is a new entry.
--
-- KEYS[1]  dead letters (stream)
-- ARGV[1]  id of the dead letter
-- ARGV[2]  the edited message
-- ARGV[3]  reason
-- ARGV[4]  detail
-- ARGV[5]  history, with this edit and the message before it (JSON)
--
-- Returns the id of the new entry, or '' when the letter is no longer there: replayed, discarded, or edited
-- by somebody else.
--
-- Writes: the stream. The other fields stay as they are.

local dead_letters, id = KEYS[1], ARGV[1]
local changed = {message = ARGV[2], reason = ARGV[3], detail = ARGV[4], history = ARGV[5]}

local entry = redis.call('XRANGE', dead_letters, id, id)[1]
if not entry then return '' end

local fields = {'message', changed.message, 'reason', changed.reason, 'detail', changed.detail}
for i = 1, #entry[2], 2 do
  if not changed[entry[2][i]] then
    fields[#fields + 1] = entry[2][i]
    fields[#fields + 1] = entry[2][i + 1]
  end
end
fields[#fields + 1] = 'history'
fields[#fields + 1] = changed.history

local new_id = redis.call('XADD', dead_letters, '*', unpack(fields))
redis.call('XDEL', dead_letters, id)
return new_id
