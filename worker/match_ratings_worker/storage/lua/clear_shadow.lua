-- The first or the last step of clearing a shadow; its other keys are dropped in between.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  the shadow's adopted settings (hash)
-- KEYS[3]  the shadow's heartbeats (hash: consumer -> ms)
-- ARGV[1]  the shadow's consumer group
-- ARGV[2]  'begin': from now on no worker may join and no commit is accepted; 'end': drops the group
-- ARGV[3]  begin: ms after which a silent consumer counts as gone; end: ms for which commits of workers
--          that slept through the clearing are still refused
-- ARGV[4]  begin: the handover consumer, which is no worker
--
-- Returns the names of the shadow's running workers, in which case nothing was changed; or nothing.
--
-- Writes: the settings (digest 'cleared'); the group.

local inbox, settings, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local group, step, ms, handover = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local exists = groups_of(inbox)[group]

if step == 'end' then
  redis.call('DEL', settings)
  redis.call('HSET', settings, 'digest', 'cleared')
  redis.call('PEXPIRE', settings, ms)
  if exists then redis.call('XGROUP', 'DESTROY', inbox, group) end
  return {}
end

local running, now = {}, now_ms()
for _, reply in ipairs(exists and redis.call('XINFO', 'CONSUMERS', inbox, group) or {}) do
  local consumer = to_table(reply)
  if consumer.name ~= handover and silent_ms(consumer, heartbeats, now) < ms then
    running[#running + 1] = consumer.name
  end
end
if #running == 0 then redis.call('HSET', settings, 'digest', 'cleared') end
return running
