-- Removes a stopping worker from the consumer group. What it still holds goes, with its attempts unchanged,
-- to the handover consumer, from which other workers take it at once.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  busy shares (hash: consumer -> share)
-- KEYS[3]  claim leader (string: a consumer)
-- KEYS[4]  heartbeats (hash: consumer -> ms)
-- ARGV[1]  consumer group
-- ARGV[2]  the worker's consumer name
-- ARGV[3]  the handover consumer
--
-- Returns how many messages were handed over.
--
-- Writes: the group's pending entries and consumers; KEYS[2], KEYS[3] and KEYS[4].

local PAGE = 100
local inbox, busy_shares, claim_leader, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, consumer, handover = ARGV[1], ARGV[2], ARGV[3]

local count = 0
while true do
  local pending = redis.call('XPENDING', inbox, group, '-', '+', PAGE, consumer)
  if #pending == 0 then break end
  for _, item in ipairs(pending) do
    local id = item[1]
    redis.call('XCLAIM', inbox, group, handover, 0, id, 'JUSTID')
    -- Only newer servers let XCLAIM drop a message that was deleted by hand.
    if not redis.call('XRANGE', inbox, id, id)[1] then redis.call('XACK', inbox, group, id) end
    count = count + 1
  end
end
redis.call('XGROUP', 'DELCONSUMER', inbox, group, consumer)
redis.call('HDEL', busy_shares, consumer)
redis.call('HDEL', heartbeats, consumer)
if redis.call('GET', claim_leader) == consumer then redis.call('DEL', claim_leader) end
return count
