-- Carries out what a worker decided for some messages, each one wholly or not at all: ratings, windows,
-- receipt, leaderboard, events, and the message's own removal change together or stay together.
--
-- KEYS[1]  inbox (stream)                    KEYS[6]  prefix of the players (hashes)
-- KEYS[2]  outbox (stream)                   KEYS[7]  prefix of the games (sorted sets)
-- KEYS[3]  dead letters (stream)             KEYS[8]  prefix of the lines (lists)
-- KEYS[4]  leaderboard (sorted set)          KEYS[9]  players with an open rating period (sorted set)
-- KEYS[5]  counts (hash)                     KEYS[10] prefix of the replay runs (hashes)
-- KEYS[11] the ladder's adopted settings (hash)
-- ARGV[1]  consumer group
-- ARGV[2]  ms for which a player's games are kept after the last day with one
-- ARGV[3]  digest of this worker's settings for the ladder; when others were adopted meanwhile, the
--          error OTHERSETTINGS is returned and nothing is written
-- ARGV[4]  how many of the system's own fields a player has, n; ARGV[5..4+n] their names
-- then for each message: verb, id, replay ('' or its run, a space, the dead letter's id), receipt key
-- ('' when none), number of players, player, ..., and
--   rate, prize, void
--          sure (1: claimed alone, the receipt is its own), digest, receipt's ms to live, match id (''
--          when it is no game), finished_at in ms ('' when the game is taken out), number of events,
--          event JSON, ... (the last one is the message's own, for the receipt); then for each player:
--          sequence as read and as written, leaderboard score ('' when not listed), tidy (ms: older
--          games leave the window, which is kept anew; '' when that was done today), the end of the open
--          rating period in ms (0 when none is open; '' when the system has none), rating, games, last
--          game in ms, own fields ...
--   aside  digest, receipt's ms to live          (known, and not rated by the rules)
--   again  digest                                (the same content has had its effect)
--   dead   reason, detail, attempts, first seen in ms, now in ms, history (JSON or '')
--   close  event JSON; then for its one player the same as for rate (no message: a rating period ends)
--          (for a void the finish time is '': its match leaves the windows)
--
-- Returns for each message: 1 done; 0 not its turn yet, nothing changed; -1 no longer in the inbox,
-- nothing changed; or a text, the error that kept it from being done.
--
-- Writes: all keys above, and the receipts given.

local inbox, outbox, dead_letters, leaderboard, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local player_, games_, line_, open, runs_ = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local group, keep_ms = ARGV[1], ARGV[2]

local adopted = redis.call('HGET', KEYS[11], 'digest')
if adopted and adopted ~= ARGV[3] then
  return redis.error_reply('OTHERSETTINGS the ladder is rated by other settings now')
end

-- A key that holds something else must stop us before the first write, not in the middle of one.
redis.call('XLEN', outbox)
redis.call('XLEN', dead_letters)
redis.call('ZCARD', leaderboard)
redis.call('HLEN', counts)
redis.call('ZCARD', open)
-- Changes nothing; a server that takes no writes now (no memory, no replicas) says so here, and for all
-- messages alike.
redis.call('ZADD', leaderboard, 'XX', 0, '')

local at = 4
local function take()
  at = at + 1
  return ARGV[at]
end

local own_fields = {}
at = 3
for i = 1, tonumber(take()) do own_fields[i] = take() end

local done, tally, scores = {}, {}, {}

local function finish(id, outcome, replay)
  done[#done + 1] = id
  tally[outcome] = (tally[outcome] or 0) + 1
  if replay ~= '' then
    local run, letter = string.match(replay, '^(%S+) (%S+)$')
    redis.call('HSET', runs_ .. run, letter, outcome)
    redis.call('EXPIRE', runs_ .. run, 604800)
  end
  return 1
end

-- How far the message at hand has come: players off whose lines it was taken, and in whose games it was
-- put. A key that holds something else shows itself there, before anything else is written, and both are
-- taken back.
local popped, played, playing = 0, 0, ''

-- Puts the message back at the head of its lines.
local function back(id, players)
  for n = 1, popped do redis.call('LPUSH', line_ .. players[n], id) end
  popped = 0
  return 0
end

-- Takes the message off the lines of all its players and returns 1 when it is the next of each; else
-- leaves them as they were and returns 0 when it must wait, -1 when it is gone.
local function turn(id, players)
  for i, player in ipairs(players) do
    local head = redis.call('LPOP', line_ .. player)
    if head ~= id then
      if head then redis.call('LPUSH', line_ .. player, head) end
      back(id, players)
      return redis.call('XRANGE', inbox, id, id)[1] and 0 or -1
    end
    popped = i
  end
  return 1
end

-- Whether this message may have the effect: nobody has had it, and no earlier one waits for it.
local function may_settle(receipt, id)
  local text = redis.call('GET', receipt)
  return not text or text == '? ' .. id or string.sub(text, 1, #id + 3) == '? ' .. id .. ' '
end

local function settle(receipt, ledger_id, digest, ttl)
  redis.call('SET', receipt, ledger_id .. ' ' .. digest, 'PX', ttl)
end

-- Takes a message off the list of those that wait to have this effect.
local function withdraw(receipt, id)
  local text = redis.call('GET', receipt)
  if not text or string.sub(text, 1, 2) ~= '? ' then return end
  local rest = {}
  for other in string.gmatch(string.sub(text, 3), '%S+') do
    if other ~= id then rest[#rest + 1] = other end
  end
  if #rest == 0 then redis.call('DEL', receipt) else redis.call('SET', receipt, '? ' .. table.concat(rest, ' ')) end
end

local verbs = {}

-- The new states of the players, each in 8 + #own_fields arguments after `first`.
local width = 8 + #own_fields

local function sequences_as_read(players, first)
  for i, player in ipairs(players) do
    local sequence = redis.call('HGET', player_ .. player, 'sequence') or '0'
    if sequence ~= ARGV[first + (i - 1) * width + 1] then return false end
  end
  return true
end

-- Puts a match into its players' games; of a void only looks whether they are games.
local function play(players, match_id, finished_at)
  playing = match_id
  for i, player in ipairs(players) do
    if finished_at == '' then
      redis.call('ZCARD', games_ .. player)
    else
      redis.call('ZADD', games_ .. player, finished_at, match_id)
      played = i
    end
  end
end

local function store(players, first, match_id, finished_at)
  for i, player in ipairs(players) do
    local base, key = first + (i - 1) * width, player_ .. player
    redis.call('HSET', key, 'rating', ARGV[base + 6], 'sequence', ARGV[base + 2],
      'games', ARGV[base + 7], 'last_game', ARGV[base + 8])
    for n, name in ipairs(own_fields) do redis.call('HSET', key, name, ARGV[base + 8 + n]) end
    scores[player] = ARGV[base + 3]
    local closes_at = ARGV[base + 5]
    if closes_at == '0' then
      redis.call('ZREM', open, player)
    elseif closes_at ~= '' then
      redis.call('ZADD', open, closes_at, player)
    end
    if match_id ~= '' then
      local games = games_ .. player
      if finished_at == '' then redis.call('ZREM', games, match_id) end
      if ARGV[base + 4] ~= '' then
        redis.call('ZREMRANGEBYSCORE', games, '-inf', ARGV[base + 4])
        redis.call('PEXPIRE', games, keep_ms)
      end
    end
  end
end

local function rate(id, replay, receipt, players, outcome)
  local sure, digest, ttl, match_id, finished_at = take(), take(), take(), take(), take()
  local events = {}
  for i = 1, tonumber(take()) do events[i] = take() end
  local first = at
  at = at + width * #players
  local may = turn(id, players)
  if may ~= 1 then return may end
  if sure ~= '1' and not may_settle(receipt, id) then return back(id, players) end
  if not sequences_as_read(players, first) then return back(id, players) end
  if match_id ~= '' then play(players, match_id, finished_at) end
  local ledger_id
  for _, event in ipairs(events) do ledger_id = redis.call('XADD', outbox, '*', 'message', event) end
  settle(receipt, ledger_id, digest, ttl)
  store(players, first, match_id, finished_at)
  return finish(id, outcome, replay)
end

function verbs.rate(id, replay, receipt, players) return rate(id, replay, receipt, players, 'rated') end
function verbs.prize(id, replay, receipt, players) return rate(id, replay, receipt, players, 'prize') end
function verbs.void(id, replay, receipt, players) return rate(id, replay, receipt, players, 'voided') end

function verbs.close(_, _, _, players)
  local event, first = take(), at
  at = at + width
  if not sequences_as_read(players, first) then return 0 end
  redis.call('XADD', outbox, '*', 'message', event)
  store(players, first, '', '')
  tally.closed = (tally.closed or 0) + 1
  return 1
end

function verbs.aside(id, replay, receipt, players)
  local digest, ttl = take(), take()
  local may = turn(id, players)
  if may ~= 1 then return may end
  if not may_settle(receipt, id) then return back(id, players) end
  settle(receipt, '-', digest, ttl)
  return finish(id, 'aside', replay)
end

function verbs.again(id, replay, receipt, players)
  local digest = take()
  local may = turn(id, players)
  if may ~= 1 then return may end
  local text = redis.call('GET', receipt)
  if not text or string.match(text, '^[^?]%S* (%S+)$') ~= digest then return back(id, players) end
  return finish(id, 'duplicate', replay)
end

function verbs.dead(id, replay, receipt, players)
  local reason, detail, attempts, first_seen, now, history =
    take(), take(), take(), take(), take(), take()
  local entry = redis.call('XRANGE', inbox, id, id)[1]
  if not entry then return -1 end
  if reason == 'conflict' then
    -- The other message may have failed in the meantime.
    local text = redis.call('GET', receipt)
    if not text or string.sub(text, 1, 2) == '? ' then return 0 end
  end
  -- An entry without a message is kept whole, so that nothing of it is lost.
  local raw
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'message' then raw = entry[2][i + 1] break end
  end
  raw = raw or cjson.encode(entry[2])
  redis.call('XADD', dead_letters, '*', 'message', raw, 'reason', reason, 'detail', detail,
    'source_id', id, 'attempts', attempts, 'first_seen', first_seen, 'dead_at', now,
    unpack(history ~= '' and {'history', history} or {}))
  -- What holds something else than a line or a receipt is left as it is.
  for _, player in ipairs(players) do redis.pcall('LREM', line_ .. player, 0, id) end
  if receipt ~= '' then pcall(withdraw, receipt, id) end
  return finish(id, 'dead:' .. reason, replay)
end

local statuses = {}
while at < #ARGV do
  local verb, id, replay, receipt, players = take(), take(), take(), take(), {}
  for i = 1, tonumber(take()) do players[i] = take() end
  popped, played = 0, 0
  local ok, status = pcall(verbs[verb], id, replay, receipt, players)
  if not ok then
    for n = 1, played do redis.call('ZREM', games_ .. players[n], playing) end
    back(id, players)
    status = tostring(type(status) == 'table' and status.err or status)
  end
  statuses[#statuses + 1] = status
end

if next(tally) then
  if #done > 0 then
    redis.call('XACK', inbox, group, unpack(done))
    redis.call('XDEL', inbox, unpack(done))
  end
  local listed = {}
  for player, score in pairs(scores) do
    if score == '' then
      redis.call('ZREM', leaderboard, player)
    else
      listed[#listed + 1] = score
      listed[#listed + 1] = player
      if #listed == 1000 then
        redis.call('ZADD', leaderboard, unpack(listed))
        listed = {}
      end
    end
  end
  if #listed > 0 then redis.call('ZADD', leaderboard, unpack(listed)) end
  for outcome, number in pairs(tally) do redis.call('HINCRBY', counts, outcome, number) end
end
return statuses
