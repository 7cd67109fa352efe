-- Removes from the head of a line, or of a reserved receipt, the ids of messages that are no longer in the
-- inbox, so that the messages behind them can go on. Such ids are left only when somebody deletes messages,
-- or the consumer group, by hand.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  the line (list) or the receipt (string)
-- ARGV[1]  consumer group
-- ARGV[2]  the consumer that receives a message which was acknowledged by hand
--
-- Returns 1 when anything was changed, else 0.
--
-- Writes: the line or the receipt; or, for a message in the inbox that was delivered and that nobody holds
-- (acknowledged by hand), claims it for the consumer.

local MOST_REMOVED = 1000
local inbox, key, group, consumer = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local kind = redis.call('TYPE', key).ok

local function head()
  if kind == 'list' then return redis.call('LINDEX', key, 0) end
  return kind == 'string' and string.match(redis.call('GET', key) or '', '^%? (%S+)')
end

local function remove_head()
  if kind == 'list' then return redis.call('LPOP', key) end
  local rest = string.match(redis.call('GET', key), '^%? %S+ (.+)$')
  if rest then redis.call('SET', key, '? ' .. rest) else redis.call('DEL', key) end
end

local changed = 0
for _ = 1, MOST_REMOVED do
  local id = head()
  if not id then break end
  if redis.call('XRANGE', inbox, id, id)[1] then
    if not redis.call('XPENDING', inbox, group, id, id, 1)[1] then
      redis.call('XCLAIM', inbox, group, consumer, 0, id, 'FORCE', 'JUSTID')
      changed = 1
    end
    break
  end
  remove_head()
  changed = 1
end
return changed
