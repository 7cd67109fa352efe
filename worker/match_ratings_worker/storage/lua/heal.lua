-- Takes from a line or a receipt the ids of messages that are no longer in the inbox, so that what waits
-- behind them can go on. Such ids are left behind only when somebody deletes messages, or the consumer
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
local healed = 0

local function first()
  if kind == 'list' then return redis.call('LINDEX', key, 0) end
  return kind == 'string' and string.match(redis.call('GET', key) or '', '^%? (%S+)')
end

local function drop(id)
  if kind == 'list' then return redis.call('LPOP', key) end
  local rest = string.match(redis.call('GET', key), '^%? %S+ (.+)$')
  if rest then redis.call('SET', key, '? ' .. rest) else redis.call('DEL', key) end
end

for _ = 1, 1000 do
  local blocker = first()
  if not blocker then break end
  if redis.call('XRANGE', inbox, blocker, blocker)[1] then
    if not redis.call('XPENDING', inbox, group, blocker, blocker, 1)[1] then
      redis.call('XCLAIM', inbox, group, ARGV[2], 0, blocker, 'FORCE', 'JUSTID')
      healed = 1
    end
    break
  end
  drop(blocker)
  healed = 1
end
return healed
