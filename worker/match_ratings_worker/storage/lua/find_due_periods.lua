-- Finds the players whose rating period is over and may be closed now.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  open rating periods (sorted set: player -> end in ms)
-- ARGV[1]  consumer group
-- ARGV[2]  grace: how long a period waits after its end for late games, in ms
-- ARGV[3]  the latest end wanted, in ms; '' for all that are over, '+inf' for all that are open
-- ARGV[4]  how many players at most
-- ARGV[5]  how many players to skip
--
-- Returns {server time in ms, the end in ms up to which periods may be closed now ('+inf' for all), number
-- of unsettled messages, players}. A period stays open while a message waits that arrived before the end
-- of its grace: it may be a game of that period. The number of messages is a lower bound.
--
-- Writes nothing.

local inbox, open_periods, group = KEYS[1], KEYS[2], ARGV[1]
local grace, latest, count, skip = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local now = now_ms()

local function id_ms(id) return tonumber(string.match(id, '^(%d+)')) end

-- When the oldest unsettled message arrived; nil when all are settled.
local oldest, waiting = nil, 0
if redis.call('EXISTS', inbox) == 1 then
  local found = groups_of(inbox)[group]
  local delivered = found and found['last-delivered-id']
  if delivered then
    local pending = redis.call('XPENDING', inbox, group)
    if pending[1] > 0 then oldest, waiting = id_ms(pending[2]), pending[1] end
  end
  local new = redis.call('XRANGE', inbox, delivered and '(' .. delivered or '-', '+', 'COUNT', 1)[1]
  if new then
    oldest, waiting = math.min(oldest or id_ms(new[1]), id_ms(new[1])), waiting + 1
  end
end

local limit = math.min(oldest or now, now) - grace
local until_ms = string.format('%.0f', limit)
if latest == '+inf' then
  if not oldest then until_ms = '+inf' end
elseif latest ~= '' and tonumber(latest) < limit then
  until_ms = latest
end
local players = redis.call('ZRANGEBYSCORE', open_periods, '-inf', until_ms, 'LIMIT', skip, count)
return {string.format('%.0f', now), until_ms, waiting, players}
