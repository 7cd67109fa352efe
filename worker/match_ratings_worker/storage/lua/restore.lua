-- Puts exported dead letters back, each one once, however often its file is read in.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  restored (hash): fingerprint of an exported letter -> the id that it was given here
-- ARGV[1]  ms for which a fingerprint is remembered after the last time that anything was restored
-- then for each letter: its fingerprint, its id where it was exported, its message, the number of its
-- other fields and values, and these
--
-- Returns for each the new id; '' when it was restored before; '=' when it is still there.
--
-- Writes: both keys.

local letters, restored = KEYS[1], KEYS[2]
redis.call('XLEN', letters)  -- a key that holds something else must stop us before the first write

local function is_there(id, message)
  local entry = redis.call('XRANGE', letters, id, id)[1]
  for i = 1, entry and #entry[2] or 0, 2 do
    if entry[2][i] == 'message' then return entry[2][i + 1] == message end
  end
  return false
end

local results, at = {}, 1
local function take()
  at = at + 1
  return ARGV[at]
end

while at < #ARGV do
  local fingerprint, id, message, count = take(), take(), take(), tonumber(take())
  local fields = {}
  for i = 1, count do fields[i] = take() end
  if redis.call('HEXISTS', restored, fingerprint) == 1 then
    results[#results + 1] = ''
  elseif is_there(id, message) then
    results[#results + 1] = '='
  else
    local new_id = redis.call('XADD', letters, '*', 'message', message, unpack(fields))
    redis.call('HSET', restored, fingerprint, new_id)
    results[#results + 1] = new_id
  end
end
redis.call('PEXPIRE', restored, ARGV[1])
return results
