-- Restores exported dead letters, each once, however often its file is imported.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  restored (hash): fingerprint of an exported letter -> the id it was given here
-- ARGV[1]  ms for which fingerprints are remembered after the last restore
-- then for each letter: its fingerprint, its id where it was exported, its message, the number of its other
-- fields and values, and these
--
-- Returns for each the new id; '' when it was restored before; '=' when it is still there.
--
-- Writes: both keys.

local dead_letters, restored, keep_ms = KEYS[1], KEYS[2], next_arg()
redis.call('XLEN', dead_letters)  -- a key of another type must stop this script before the first write

local function is_there(id, message)
  local entry = redis.call('XRANGE', dead_letters, id, id)[1]
  return entry and field_of(entry, 'message') == message
end

local results = {}
while position < #ARGV do
  local fingerprint, id, message, fields = next_arg(), next_arg(), next_arg(), next_list()
  if redis.call('HEXISTS', restored, fingerprint) == 1 then
    results[#results + 1] = ''
  elseif is_there(id, message) then
    results[#results + 1] = '='
  else
    local new_id = redis.call('XADD', dead_letters, '*', 'message', message, unpack(fields))
    redis.call('HSET', restored, fingerprint, new_id)
    results[#results + 1] = new_id
  end
end
redis.call('PEXPIRE', restored, keep_ms)
return results
