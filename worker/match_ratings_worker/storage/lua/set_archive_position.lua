-- Records how far a ladder's archive goes; the first archive of a ladder becomes its only one.
--
-- KEYS[1]  the ladder's archive (hash)
-- ARGV[1]  id of the archive
-- ARGV[2]  its place: host and path
-- ARGV[3]  the last event in it, or '0-0'
-- ARGV[4]  now in ms
-- ARGV[5]  '1' to make it the ladder's archive whatever is recorded
--
-- Returns 'noted'; or, with nothing changed, {'other', place of the ladder's archive} or {'behind', the last
-- event that this archive once had}.
--
-- Writes: the hash.

local archive, id, place, last, now, force = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'

local function parse_id(stream_id)
  local ms, sequence = string.match(stream_id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(sequence)
end

if not force then
  local recorded_id = redis.call('HGET', archive, 'id')
  local recorded = redis.call('HGET', archive, 'upto') or '0-0'
  if recorded_id and recorded_id ~= id then return {'other', redis.call('HGET', archive, 'place') or ''} end
  local ms, sequence = parse_id(last)
  local recorded_ms, recorded_sequence = parse_id(recorded)
  if ms < recorded_ms or (ms == recorded_ms and sequence < recorded_sequence) then
    return {'behind', recorded}
  end
end
redis.call('HSET', archive, 'id', id, 'place', place, 'upto', last, 'at', now)
return 'noted'
