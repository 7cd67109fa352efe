-- Takes a stopping worker out of the consumer group. What it still holds is left, with its attempts as
-- they are, under a name from which the other workers take it at once.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  the workers' busy shares (hash)
-- KEYS[3]  who alone claims for a while (string)
-- KEYS[4]  when each consumer last showed itself (hash)
-- ARGV[1]  consumer group
-- ARGV[2]  this worker's consumer name
-- ARGV[3]  the name under which it is left
--
-- Returns how many messages were left.
--
-- Writes: the group's pending entries and consumers.

local inbox, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local left = 0
while true do
  local pending = redis.call('XPENDING', inbox, group, '-', '+', 100, consumer)
  if #pending == 0 then break end
  for _, item in ipairs(pending) do
    redis.call('XCLAIM', inbox, group, ARGV[3], 0, item[1], 'JUSTID')
    -- A message that was deleted by hand is dropped by XCLAIM on newer servers only.
    if not redis.call('XRANGE', inbox, item[1], item[1])[1] then redis.call('XACK', inbox, group, item[1]) end
    left = left + 1
  end
end
redis.call('XGROUP', 'DELCONSUMER', inbox, group, consumer)
redis.call('HDEL', KEYS[2], consumer)
redis.call('HDEL', KEYS[4], consumer)
if redis.call('GET', KEYS[3]) == consumer then redis.call('DEL', KEYS[3]) end
return left
