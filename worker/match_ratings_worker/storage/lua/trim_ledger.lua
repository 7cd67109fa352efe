-- Trims a ledger by age, and an archived ledger only as far as its archive goes.
--
-- KEYS[1]  outbox (stream)
-- KEYS[2]  the ladder's archive (hash)
-- ARGV[1]  id of the archive that has everything before ARGV[2]; '' when the ladder must have none
-- ARGV[2]  the stream id before which events may go
-- ARGV[3]  how many at most
--
-- Returns how many were trimmed; or -1, with nothing trimmed, when the ladder has another archive, or has
-- one where it must have none.
--
-- Writes: the outbox. Only whole nodes of the stream are dropped, so that some older events may stay.

if (redis.call('HGET', KEYS[2], 'id') or '') ~= ARGV[1] then return -1 end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', ARGV[2], 'LIMIT', ARGV[3])
