-- One step of the clearing of a shadow.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  the shadow's adopted settings (hash)
-- KEYS[3]  heartbeats (hash: consumer -> ms)
-- ARGV[1]  the shadow's consumer group
-- ARGV[2]  'begin': no worker is let in from now on, and no commit accepted; 'end': the group is gone
-- ARGV[3]  begin: ms after which a silent consumer counts as gone; end: ms for which commits of workers
--          that slept through the clearing are still refused
-- ARGV[4]  begin: the consumer name under which stopping workers leave what they could not finish
--
-- Returns the names of the shadow's workers that run, and then nothing was changed; or nothing.
--
-- Writes: the settings (digest 'cleared'), the group.

local inbox, group = KEYS[1], ARGV[1]
local exists = false
if redis.call('EXISTS', inbox) == 1 then
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', inbox)) do
    for i = 1, #info, 2 do exists = exists or (info[i] == 'name' and info[i + 1] == group) end
  end
end

if ARGV[2] == 'end' then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'digest', 'cleared')
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  if exists then redis.call('XGROUP', 'DESTROY', inbox, group) end
  return {}
end

-- Before 7.2, Redis counts a consumer as idle since it last received a message, however often it asks.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local running = {}
for _, info in ipairs(exists and redis.call('XINFO', 'CONSUMERS', inbox, group) or {}) do
  local about = {}
  for i = 1, #info, 2 do about[info[i]] = info[i + 1] end
  local silent = math.min(about.idle, now - tonumber(redis.call('HGET', KEYS[3], about.name) or 0))
  if about.name ~= ARGV[4] and silent < tonumber(ARGV[3]) then running[#running + 1] = about.name end
end
if #running == 0 then redis.call('HSET', KEYS[2], 'digest', 'cleared') end
return running
