-- Claims messages for one worker and puts each on the lines of its players, in one step, so that every
-- line has the order of the stream, however many workers there are.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  prefix of the lines (lists)
-- KEYS[3]  prefix of the receipts of matches (strings)
-- KEYS[4]  prefix of the receipts of tournaments (strings)
-- KEYS[5]  prefix of the receipts of voids (strings)
-- KEYS[6]  prefix of the players (hashes)
-- KEYS[7]  prefix of the games (sorted sets)
-- KEYS[8]  claim leader: the only consumer that may claim for a while (string)
-- KEYS[9]  heartbeats (hash: consumer -> ms)
-- ARGV[1]  consumer group
-- ARGV[2]  this worker's consumer name
-- ARGV[3]  what to claim: 'new' (not delivered yet), 'own' (this consumer's, after a lost reply) or
--          'stale' (those of consumers that are gone)
-- ARGV[4]  how many at most
-- ARGV[5]  new: 'contended' when much of what this worker holds waits for other workers' messages;
--          own: the stream id to go on after; stale: ms after which a silent consumer counts as gone
-- ARGV[6]  the largest message that is read, in bytes
-- ARGV[7]  the handover consumer: stopping workers leave it what they could not finish
-- ARGV[8]  length in ms of the window in which games are counted
-- ARGV[9..] the hash fields of a player's state
--
-- Returns {server time in ms, id of the stream's newest entry, ms for which another worker is the claim
-- leader (0 when none is), entries}; each entry is
-- {id, attempts, kind, message, size in bytes, exclusive, effect id, replay, player states, player, ...}:
--   kind       'match', 'tournament', 'void', or '' when this script could not read it and queued it
--              nowhere; then the effect id is the error that kept it from being queued, if it was read
--   message    false when there is none or it is too large
--   exclusive  1 when no earlier message has this effect id and nothing else is on its players' lines, else
--              0: if 1, the lines and the receipt need not be read
--   replay     the field that a replay added to the message, or false
--   player states  of an exclusive match whose time is a number: for each player {field values, games in
--              the window}; nobody else can rate these players now, so that they need not be read again.
--              Otherwise false
--
-- Writes: the group's pending entries; new: RPUSH on each player's line, and the receipt '? <id> ...'
-- (reserved by these entries, the first of which may be rated); the claim leader; stale: the heartbeat, and
-- deletes consumers that are gone and hold nothing. A message that was claimed before is on its lines.

local CLAIM_LEADER_MS = 2000
local MAX_ID_BYTES = 512  -- 128 characters
local MAX_PLAYERS = 16

local inbox, line_, player_, games_ = KEYS[1], KEYS[2], KEYS[6], KEYS[7]
local receipt_of = {match = KEYS[3], tournament = KEYS[4], void = KEYS[5]}
local claim_leader, heartbeats = KEYS[8], KEYS[9]
local group, consumer, what, count = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local max_bytes, handover, window_ms = tonumber(ARGV[6]), ARGV[7], ARGV[8]
local state_fields = {unpack(ARGV, 9)}

local function is_id(value)
  return type(value) == 'string' and value ~= '' and #value <= MAX_ID_BYTES
end

-- Returns what the lines need of a message: kind, effect id, players, finish time; nil when it is not there.
local function parse(raw)
  local ok, message = pcall(cjson.decode, raw)
  if not ok or type(message) ~= 'table' then return nil end
  local kind, id, players = 'match', message.match_id, message.players
  if message.type == 'tournament-finished' then
    kind, id, players = 'tournament', message.tournament_id, message.podium
  elseif message.type == 'match-voided' then
    kind = 'void'
  end
  if not is_id(id) or type(players) ~= 'table' then return nil end
  if #players < 1 or #players > MAX_PLAYERS or (kind ~= 'tournament' and #players ~= 2) then return nil end
  local seen = {}
  for _, player in ipairs(players) do
    if not is_id(player) or seen[player] then return nil end
    seen[player] = true
  end
  return kind, id, players, message.finished_at
end

-- Queues a new message and returns 1 when it is exclusive, else 0; or nil and an error, with nothing queued,
-- when a key holds another type.
local function queue(id, receipt_key, players)
  local exclusive = 1
  for i, player in ipairs(players) do
    local length = redis.pcall('RPUSH', line_ .. player, id)
    if type(length) == 'table' then
      for n = 1, i - 1 do redis.call('RPOP', line_ .. players[n]) end
      return nil, length.err
    end
    if length > 1 then exclusive = 0 end
  end
  if redis.call('SET', receipt_key, '? ' .. id, 'NX') then return exclusive end
  local receipt = redis.pcall('GET', receipt_key)
  if type(receipt) == 'table' then
    for _, player in ipairs(players) do redis.call('RPOP', line_ .. player) end
    return nil, receipt.err
  end
  if string.sub(receipt, 1, 2) == '? ' then redis.call('APPEND', receipt_key, ' ' .. id) end
  return 0
end

-- The same for a message that was claimed before: it is queued already, unless a key prevented that.
local function requeue(id, _, players)
  for _, player in ipairs(players) do
    local place = redis.pcall('LPOS', line_ .. player, id)
    if type(place) == 'table' then return nil, place.err end
    if not place then redis.call('RPUSH', line_ .. player, id) end
  end
  return 0
end

local function read_players(players, finished_at)
  if type(finished_at) ~= 'number' then return false end
  local from = string.format('%.0f', finished_at - window_ms)
  local before = string.format('(%.0f', finished_at)
  local states = {}
  for i, player in ipairs(players) do
    local values = redis.pcall('HMGET', player_ .. player, unpack(state_fields))
    local games = redis.pcall('ZCOUNT', games_ .. player, from, before)
    if values.err or type(games) ~= 'number' then return false end  -- read_batch.lua reports the error
    states[i] = {values, games}
  end
  return states
end

local function describe(entry, attempts, is_new)
  local id, raw, replay = entry[1], field_of(entry, 'message') or false, field_of(entry, 'replay') or false
  local size = raw and #raw or 0
  if size > max_bytes then raw = false end
  local kind, effect, players, finished_at
  if raw then kind, effect, players, finished_at = parse(raw) end
  if not kind then return {id, attempts, '', raw, size, 0, '', replay, false} end
  local exclusive, err = (is_new and queue or requeue)(id, receipt_of[kind] .. effect, players)
  if not exclusive then return {id, attempts, '', raw, size, 0, err, replay, false} end
  local states = exclusive == 1 and kind == 'match' and read_players(players, finished_at)
  return {id, attempts, kind, raw, size, exclusive, effect, replay, states, unpack(players)}
end

local now, found = now_ms(), {}

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

-- Returns how long this worker must not claim new messages, in ms; 0 when it may. Where few players play
-- much, their matches depend on each other and workers only wait for each other: then one of them claims
-- alone for a while, and the others finish what they have.
local function turned_away_ms(contended)
  local leader = redis.call('GET', claim_leader)
  if not leader and contended then redis.call('SET', claim_leader, consumer, 'PX', CLAIM_LEADER_MS) end
  return leader and leader ~= consumer and redis.call('PTTL', claim_leader) or 0
end

local function claim_new()
  local reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', inbox, '>')
  for _, entry in ipairs(reply and reply[1][2] or {}) do found[#found + 1] = describe(entry, 1, true) end
end

local function claim_own(after)
  while #found == 0 do  -- some may have been deleted by hand
    local pending = redis.call('XPENDING', inbox, group, '(' .. after, '+', count, consumer)
    if #pending == 0 then return end
    add_pending(pending)
    after = pending[#pending][1]
  end
end

-- Claims messages of a consumer that is gone; returns whether one of them is suspected of killing workers.
local function take_over(from)
  local is_handover = from == handover
  local pending = redis.call('XPENDING', inbox, group, '-', '+', count - #found, from)
  -- Two workers have died already with a message in hand: from now on one at a time, so that a message that
  -- kills its worker does not use up the attempts of its neighbours. What was handed over killed nobody.
  local suspect, taken = false, {}
  for _, item in ipairs(pending) do suspect = suspect or (item[4] > 1 and not is_handover) end
  for i, item in ipairs(pending) do
    if suspect and (i > 1 or #found > 0) then break end
    if is_handover then
      redis.call('XCLAIM', inbox, group, consumer, 0, item[1], 'JUSTID')
    else
      redis.call('XCLAIM', inbox, group, consumer, 0, item[1])
      item[4] = item[4] + 1
    end
    taken[i] = item
  end
  add_pending(taken)
  return suspect
end

local function claim_stale(idle_ms)
  -- A worker that has no room, or finds nothing, is a member of the group all the same.
  redis.call('XGROUP', 'CREATECONSUMER', inbox, group, consumer)
  redis.call('HSET', heartbeats, consumer, now)
  for _, reply in ipairs(redis.call('XINFO', 'CONSUMERS', inbox, group)) do
    local other = to_table(reply)
    local is_gone = other.name == handover or silent_ms(other, heartbeats, now) >= idle_ms
    if other.name ~= consumer and is_gone then
      if other.pending == 0 then
        redis.call('XGROUP', 'DELCONSUMER', inbox, group, other.name)
        redis.call('HDEL', heartbeats, other.name)
      elseif #found < count and take_over(other.name) then
        return
      end
    end
  end
end

local turned_away = 0
if what == 'new' then
  turned_away = turned_away_ms(ARGV[5] == 'contended')
  if turned_away == 0 then claim_new() end
elseif what == 'own' then
  claim_own(ARGV[5])
else
  claim_stale(tonumber(ARGV[5]))
end

local newest = redis.call('XREVRANGE', inbox, '+', '-', 'COUNT', 1)[1]
return {now, newest and newest[1] or '0-0', turned_away, found}
