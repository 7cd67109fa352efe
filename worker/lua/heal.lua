-- Takes from a line or a receipt the id of a message that is no longer in the inbox, so that what waits
-- behind it can go on. Such ids are left behind only when somebody deletes messages, or the consumer
-- group, by hand.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  the line (list) or the receipt (string)
-- ARGV[1]  consumer group
-- ARGV[2]  this worker's consumer name
--
-- Returns 1 when something was put right, else 0.
--
-- Writes: the line or the receipt; or, for a message in the inbox that nobody has claimed though it was
-- delivered (acknowledged by hand), claims it for this consumer.

local inbox, key, group = KEYS[1], KEYS[2], ARGV[1]
local kind = redis.call('TYPE', key).ok
local blocker
if kind == 'list' then
  blocker = redis.call('LINDEX', key, 0)
elseif kind == 'string' then
  blocker = string.match(redis.call('GET', key), '^%? (%S+)')
end
if not blocker then return 0 end

if redis.call('XRANGE', inbox, blocker, blocker)[1] then
  if redis.call('XPENDING', inbox, group, blocker, blocker, 1)[1] then return 0 end
  redis.call('XCLAIM', inbox, group, ARGV[2], 0, blocker, 'FORCE', 'JUSTID')
  return 1
end
if kind == 'list' then
  redis.call('LREM', key, 0, blocker)
else
  local rest = string.match(redis.call('GET', key), '^%? %S+ (.+)$')
  if rest then redis.call('SET', key, '? ' .. rest) else redis.call('DEL', key) end
end
return 1
