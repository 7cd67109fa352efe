-- The players whose rating period is over, as far as it may be closed now.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  players with an open rating period (sorted set: player -> its end in ms)
-- ARGV[1]  consumer group
-- ARGV[2]  how long a period waits after its end for games of it that come late, in ms
-- ARGV[3]  the latest end that is wanted, in ms; '' for whatever is over, '+inf' for all that are open
-- ARGV[4]  how many players at most
-- ARGV[5]  how many to pass over
--
-- Returns {server time in ms, the end in ms up to which periods may be closed now ('+inf' for all), how
-- many messages are not settled, players}. A period is left open while a message waits that came in before
-- the end of its grace: such a message may be a game of it.
--
-- Writes nothing.

local inbox, open, group = KEYS[1], KEYS[2], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function ms(id) return tonumber(string.match(id, '^(%d+)')) end

-- When the oldest message came in that is not settled; nil when all are.
local oldest, delivered, waiting = nil, nil, 0
if redis.call('EXISTS', inbox) == 1 then
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', inbox)) do
    local about = {}
    for i = 1, #info, 2 do about[info[i]] = info[i + 1] end
    if about.name == group then delivered = about['last-delivered-id'] end
  end
  if delivered then
    local pending = redis.call('XPENDING', inbox, group)
    if pending[1] > 0 then oldest, waiting = ms(pending[2]), pending[1] end
  end
  local new = redis.call('XRANGE', inbox, delivered and '(' .. delivered or '-', '+', 'COUNT', 1)[1]
  if new then
    oldest, waiting = math.min(oldest or ms(new[1]), ms(new[1])), waiting + 1
  end
end

local limit = math.min(oldest or now, now) - tonumber(ARGV[2])
local until_ = string.format('%.0f', limit)
if ARGV[3] == '+inf' then
  if not oldest then until_ = '+inf' end
elseif ARGV[3] ~= '' and tonumber(ARGV[3]) < limit then
  until_ = ARGV[3]
end
local players = redis.call('ZRANGEBYSCORE', open, '-inf', until_, 'LIMIT', ARGV[5], ARGV[4])
return {string.format('%.0f', now), until_, waiting, players}
