-- Adds a dead letter for a message that came by a job, and counts it, in one step.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  counts (hash)
-- ARGV[1]  reason
-- ARGV[2..] the names and values of its fields
--
-- Returns its id.
--
-- Writes: both keys.

local dead_letters, counts, reason = KEYS[1], KEYS[2], ARGV[1]
redis.call('HLEN', counts)  -- a key of another type must stop this script before the first write

local id = redis.call('XADD', dead_letters, '*', unpack(ARGV, 2))
redis.call('HINCRBY', counts, 'dead:' .. reason, 1)
return id
