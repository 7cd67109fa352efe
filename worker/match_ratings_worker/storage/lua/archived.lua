-- Notes how far a ladder's archive has come; the first archive of a ladder becomes its only one.
--
-- KEYS[1]  the ladder's archive (hash)
-- ARGV[1]  id of the archive
-- ARGV[2]  where it is: host and path
-- ARGV[3]  the last event that it has, or '0-0'
-- ARGV[4]  now in ms
-- ARGV[5]  '1' when it is to be the ladder's archive whatever was before
--
-- Returns 'noted'; or why not, and then nothing was changed: {'other', place of the ladder's archive}, or
-- {'behind', the last event that this archive once had}.
--
-- Writes: the hash.

local id, last = redis.call('HGET', KEYS[1], 'id'), redis.call('HGET', KEYS[1], 'upto') or '0-0'
if ARGV[5] ~= '1' then
  if id and id ~= ARGV[1] then return {'other', redis.call('HGET', KEYS[1], 'place') or ''} end
  local ms, seq = string.match(ARGV[3], '^(%d+)-(%d+)$')
  local last_ms, last_seq = string.match(last, '^(%d+)-(%d+)$')
  ms, seq, last_ms, last_seq = tonumber(ms), tonumber(seq), tonumber(last_ms), tonumber(last_seq)
  if ms < last_ms or (ms == last_ms and seq < last_seq) then return {'behind', last} end
end
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'place', ARGV[2], 'upto', ARGV[3], 'at', ARGV[4])
return 'noted'
