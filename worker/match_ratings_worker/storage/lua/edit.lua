-- Puts an edited dead letter in the place of the one that it was made from, in one step. A stream's
-- entries cannot be changed, so the edited one is a new entry.
--
-- KEYS[1]  dead letters (stream)
-- ARGV[1]  id of the dead letter
-- ARGV[2]  the message as it is now
-- ARGV[3]  reason
-- ARGV[4]  detail
-- ARGV[5]  history, with this edit and the message before it (JSON)
--
-- Returns the new entry's id, or '' when the letter is no longer there: replayed, discarded, or edited
-- by somebody else meanwhile.
--
-- Writes: the stream. The other fields are kept as they are.

local letters, id = KEYS[1], ARGV[1]
local new = {message = ARGV[2], reason = ARGV[3], detail = ARGV[4], history = ARGV[5]}

local entry = redis.call('XRANGE', letters, id, id)[1]
if not entry then return '' end

local fields = {'message', new.message, 'reason', new.reason, 'detail', new.detail}
for i = 1, #entry[2], 2 do
  if not new[entry[2][i]] then
    fields[#fields + 1] = entry[2][i]
    fields[#fields + 1] = entry[2][i + 1]
  end
end
fields[#fields + 1] = 'history'
fields[#fields + 1] = new.history

local new_id = redis.call('XADD', letters, '*', unpack(fields))
redis.call('XDEL', letters, id)
return new_id
