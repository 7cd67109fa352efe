-- Claims messages for one worker and puts each on the lines of its players, in one step, so that every
-- line has the order of the stream whatever the number of workers.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  prefix of the lines (lists)
-- KEYS[3]  prefix of the receipts of matches (strings)
-- KEYS[4]  prefix of the receipts of tournaments (strings)
-- KEYS[5]  prefix of the receipts of voids (strings)
-- KEYS[6]  prefix of the players (hashes)
-- KEYS[7]  prefix of the games (sorted sets)
-- KEYS[8]  who alone claims for a while (string: a consumer name)
-- KEYS[9]  when each consumer last showed itself (hash: name -> ms)
-- ARGV[1]  consumer group
-- ARGV[2]  this worker's consumer name
-- ARGV[3]  what to claim: 'new' (not delivered yet), 'own' (this consumer's, after a lost reply) or
--          'stale' (those of consumers that are gone)
-- ARGV[4]  how many at most
-- ARGV[5]  new: 'crowded' when much of what this worker holds waits for other workers' messages;
--          own: the stream id to go on after; stale: ms after which a silent consumer counts as gone
-- ARGV[6]  the largest message that is read, in bytes
-- ARGV[7]  the consumer name under which stopping workers leave what they could not finish
-- ARGV[8]  ms of the window in which games are counted
-- ARGV[9..] the hash fields of a player's state
--
-- Returns {server time in ms, id of the stream's newest entry, ms for which another worker alone claims
-- (0 when none does), entries}; each entry is
-- {id, attempts, kind, message, size in bytes, alone, effect id, replay, standings, player, ...}:
--   kind    'match', 'tournament', 'void', or '' when this script could not read it and queued it nowhere;
--           then the effect id is what kept it from being queued, if it could be read
--   message false when there is none or it is too large
--   alone   1 when no earlier message with this effect id is known and its players' lines hold
--           nothing else, else 0: then the lines and the receipt need not be read
--   replay  what replaying a dead letter added to the message, or false
--   standings  of a match that is alone, whose time is a number: for each player {field values, games
--           in the window}; nobody else can rate them meanwhile, so that they need not be read again.
--           Otherwise false
--
-- Writes: the group's pending entries; new: RPUSH on each player's line, and the receipt key '? <id>'
-- (reserved by the entries named there, the first of them may be rated); stale: deletes consumers that
-- are gone and hold nothing. A message that was claimed once already is on its lines already.

local inbox, group, consumer, count = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4])
local max_bytes = tonumber(ARGV[6])
local receipts = {match = KEYS[3], tournament = KEYS[4], void = KEYS[5]}

-- What the lines need of a message: kind, effect id, players; nil when it cannot be had.
local function read(raw)
  local ok, message = pcall(cjson.decode, raw)
  if not ok or type(message) ~= 'table' then return nil end
  local kind, id, players = 'match', message.match_id, message.players
  if message.type == 'tournament-finished' then
    kind, id, players = 'tournament', message.tournament_id, message.podium
  elseif message.type == 'match-voided' then
    kind = 'void'
  end
  if type(id) ~= 'string' or id == '' or #id > 512 or type(players) ~= 'table' then return nil end
  if #players < 1 or #players > 16 or (kind ~= 'tournament' and #players ~= 2) then return nil end
  local seen = {}
  for _, player in ipairs(players) do
    if type(player) ~= 'string' or player == '' or #player > 512 or seen[player] then return nil end
    seen[player] = true
  end
  return kind, id, players, message.finished_at
end

-- 1 or 0 for alone or not; or nil and an error, and nothing is queued, when a key holds something else.
local function queue(id, key, players)
  local alone = 1
  for i, player in ipairs(players) do
    local length = redis.pcall('RPUSH', KEYS[2] .. player, id)
    if type(length) == 'table' then
      for n = 1, i - 1 do redis.call('RPOP', KEYS[2] .. players[n]) end
      return nil, length.err
    end
    if length > 1 then alone = 0 end
  end
  if redis.call('SET', key, '? ' .. id, 'NX') then return alone end
  local receipt = redis.pcall('GET', key)
  if type(receipt) == 'table' then
    for _, player in ipairs(players) do redis.call('RPOP', KEYS[2] .. player) end
    return nil, receipt.err
  end
  if string.sub(receipt, 1, 2) == '? ' then redis.call('APPEND', key, ' ' .. id) end
  return 0
end

-- The same for a message that was claimed before: it is queued already, unless a key kept it from that.
local function queued(id, _, players)
  for _, player in ipairs(players) do
    local place = redis.pcall('LPOS', KEYS[2] .. player, id)
    if type(place) == 'table' then return nil, place.err end
    if not place then redis.call('RPUSH', KEYS[2] .. player, id) end
  end
  return 0
end

local fields = {}
for i = 9, #ARGV do fields[i - 8] = ARGV[i] end

local function standings(players, finished_at)
  if type(finished_at) ~= 'number' then return false end
  local from = string.format('%.0f', finished_at - ARGV[8])
  local before = string.format('(%.0f', finished_at)
  local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}
  for i, player in ipairs(players) do
    local values = redis.pcall('HMGET', KEYS[6] .. player, unpack(fields))
    local games = redis.pcall('ZCOUNT', KEYS[7] .. player, from, before)
    if values.err or type(games) ~= 'number' then return false end  -- read.lua says what is wrong
    found[i] = {values, games}
  end
  return found
end

local function describe(entry, attempts, is_new)
  local id, raw, replay = entry[1], false, false
  for i = #entry[2] - 1, 1, -2 do
    if entry[2][i] == 'message' then raw = entry[2][i + 1] end
    if entry[2][i] == 'replay' then replay = entry[2][i + 1] end
  end
  local size = raw and #raw or 0
  if size > max_bytes then raw = false end
  local kind, effect, players, finished_at
  if raw then kind, effect, players, finished_at = read(raw) end
  if not kind then return {id, attempts, '', raw, size, 0, '', replay, false} end
  local alone, err = (is_new and queue or queued)(id, receipts[kind] .. effect, players)
  if not alone then return {id, attempts, '', raw, size, 0, err, replay, false} end
  local standing = alone == 1 and kind == 'match' and standings(players, finished_at)
  local described = {id, attempts, kind, raw, size, alone, effect, replay, standing}
  for i, player in ipairs(players) do described[9 + i] = player end
  return described
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}

local function add_pending(pending)
  for _, item in ipairs(pending) do
    local entry = redis.call('XRANGE', inbox, item[1], item[1])[1]
    if entry then
      found[#found + 1] = describe(entry, item[4], false)
    else
      redis.call('XACK', inbox, group, item[1])  -- somebody deleted the message itself
    end
  end
end

local turned_away = 0
if ARGV[3] == 'new' then
  -- Where few players play much, their matches follow from one another and workers only wait for each
  -- other: then one of them claims alone for a while, and the others finish what they have.
  local leader = redis.call('GET', KEYS[8])
  if leader and leader ~= consumer then turned_away = redis.call('PTTL', KEYS[8]) end
  if ARGV[5] == 'crowded' and not leader then redis.call('SET', KEYS[8], consumer, 'PX', 2000) end
end
if ARGV[3] == 'new' and turned_away == 0 then
  local reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', inbox, '>')
  for _, entry in ipairs(reply and reply[1][2] or {}) do
    found[#found + 1] = describe(entry, 1, true)
  end
elseif ARGV[3] == 'own' then
  local after = ARGV[5]
  while #found == 0 do  -- some may have been deleted by hand
    local pending = redis.call('XPENDING', inbox, group, '(' .. after, '+', count, consumer)
    if #pending == 0 then break end
    add_pending(pending)
    after = pending[#pending][1]
  end
elseif ARGV[3] == 'stale' then
  -- Redis 7.0 counts a consumer as silent since it last got something; one that has no room, or finds
  -- nothing, is there all the same.
  redis.call('XGROUP', 'CREATECONSUMER', inbox, group, consumer)
  redis.call('HSET', KEYS[9], consumer, now)
  for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', inbox, group)) do
    local about = {}
    for i = 1, #info, 2 do about[info[i]] = info[i + 1] end
    local silent = math.min(about.idle, now - tonumber(redis.call('HGET', KEYS[9], about.name) or 0))
    if about.name ~= consumer and (silent >= tonumber(ARGV[5]) or about.name == ARGV[7]) then
      local room = count - #found
      if about.pending == 0 then
        redis.call('XGROUP', 'DELCONSUMER', inbox, group, about.name)
        redis.call('HDEL', KEYS[9], about.name)
      elseif room > 0 then
        local pending = redis.call('XPENDING', inbox, group, '-', '+', room, about.name)
        -- Two workers have gone already with one of these in hand: from now on one at a time, so that
        -- a message that kills its worker does not use up the attempts of its neighbours.
        -- What was left in good order has killed nobody.
        local left, suspect, taken = about.name == ARGV[7], false, {}
        for _, item in ipairs(pending) do suspect = suspect or (item[4] > 1 and not left) end
        for i, item in ipairs(pending) do
          if suspect and (i > 1 or #found > 0) then break end
          if left then
            redis.call('XCLAIM', inbox, group, consumer, 0, item[1], 'JUSTID')
          else
            redis.call('XCLAIM', inbox, group, consumer, 0, item[1])
            item[4] = item[4] + 1
          end
          taken[i] = item
        end
        add_pending(taken)
        if suspect then break end
      end
    end
  end
end

local newest = redis.call('XREVRANGE', inbox, '+', '-', 'COUNT', 1)[1]
return {now, newest and newest[1] or '0-0', turned_away, found}
