-- Carries out what a worker decided about some messages, each wholly or not at all: ratings, windows,
-- receipt, leaderboard, events, and the removal of the message change together or not at all.
--
-- KEYS[1]  inbox (stream)                    KEYS[6]  prefix of the players (hashes)
-- KEYS[2]  outbox (stream)                   KEYS[7]  prefix of the games (sorted sets)
-- KEYS[3]  dead letters (stream)             KEYS[8]  prefix of the lines (lists)
-- KEYS[4]  leaderboard (sorted set)          KEYS[9]  open rating periods (sorted set)
-- KEYS[5]  counts (hash)                     KEYS[10] prefix of the replay runs (hashes)
-- KEYS[11] the ladder's adopted settings (hash)
-- ARGV[1]  consumer group
-- ARGV[2]  ms for which a player's games are kept
-- ARGV[3]  digest of this worker's settings for the ladder; when others are adopted, the error
--          OTHERSETTINGS is returned and nothing is written
-- ARGV[4]  number of the system's own fields of a player, n; ARGV[5..4+n] their names
-- then for each message: action, id, replay ('' or its run, a space, the dead letter's id), receipt key
-- ('' when none), number of players, player, ..., and
--   rated, prize, void
--              exclusive (1: the receipt is known to be this message's), digest, ms for which the receipt is
--              kept, match id ('' when it is no game), finished_at in ms ('' when the game is removed, which
--              a void does), number of events, event JSON, ... (the last one is the message's own, for the
--              receipt); then for each player the 8 + n arguments named in STATE below
--   not-rated  digest, ms for which the receipt is kept     (accepted, not rated by the rules)
--   duplicate  digest                                       (the same content has had its effect)
--   dead       reason, detail, attempts, first seen in ms, now in ms, history (JSON or '')
--   closed     event JSON; then the 8 + n arguments of its one player (no message: a rating period ends)
--
-- Returns for each message a number of CommitStatus (pipeline/message_batch.py), or an error text:
--    1  DONE
--    0  CHANGED  it is not its turn, or something changed since it was read; nothing was written
--   -1  MISSING  it is no longer in the inbox; nothing was written
--
-- Writes: all keys above, and the receipts given.

local DONE, CHANGED, MISSING = 1, 0, -1
local RUN_SECONDS = 7 * 86400  -- for which the outcomes of a replay are kept
local ZADD_CHUNK = 1000        -- arguments of one ZADD

-- Offsets of the arguments of a player's new state.
local STATE = {
  READ = 1,       -- the sequence as read
  SEQUENCE = 2,   -- the sequence to write
  SCORE = 3,      -- leaderboard score; '' when not listed
  KEEP_FROM = 4,  -- ms: older games leave the window, and its expiry is renewed; '' when done today
  CLOSES_AT = 5,  -- end of the open rating period in ms; 0 when none is open, '' when it stays as it is
  RATING = 6,
  GAMES = 7,
  LAST_GAME = 8,  -- ms
  OWN = 8,        -- the system's own fields follow
}

local inbox, outbox, dead_letters, leaderboard, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local player_, games_, line_, open_periods, run_ = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local group, keep_games, settings_digest = next_arg(), next_arg(), next_arg()
local own_fields = next_list()
local state_width = STATE.OWN + #own_fields

local refused = other_settings(KEYS[11], settings_digest)
if refused then return refused end

-- A key that holds another type must stop this script before the first write, not in the middle of one.
redis.call('XLEN', outbox)
redis.call('XLEN', dead_letters)
redis.call('ZCARD', leaderboard)
redis.call('HLEN', counts)
redis.call('ZCARD', open_periods)
-- Changes nothing; a server that accepts no writes now (no memory, no replicas) answers with an error here,
-- and so for all messages alike.
redis.call('ZADD', leaderboard, 'XX', 0, '')

local done, tally, scores = {}, {}, {}

local function finish(id, outcome, replay)
  done[#done + 1] = id
  tally[outcome] = (tally[outcome] or 0) + 1
  if replay ~= '' then
    local run, letter = string.match(replay, '^(%S+) (%S+)$')
    redis.call('HSET', run_ .. run, letter, outcome)
    redis.call('EXPIRE', run_ .. run, RUN_SECONDS)
  end
  return DONE
end

-- Progress of the message at hand: the number of players whose lines it was taken off, and of players to
-- whose games it was added. A key that holds another type shows itself there, before anything else is
-- written, and both are undone.
local popped, added, added_game = 0, 0, ''

local function push_back(id, players)
  for n = 1, popped do redis.call('LPUSH', line_ .. players[n], id) end
  popped = 0
  return CHANGED
end

-- Takes the message off the lines of all its players if it is first on each. Otherwise changes nothing and
-- returns CHANGED when it must wait, MISSING when it is gone.
local function pop_heads(id, players)
  for i, player in ipairs(players) do
    local head = redis.call('LPOP', line_ .. player)
    if head ~= id then
      if head then redis.call('LPUSH', line_ .. player, head) end
      push_back(id, players)
      return redis.call('XRANGE', inbox, id, id)[1] and CHANGED or MISSING
    end
    popped = i
  end
  return DONE
end

-- Whether this message may have the effect: none had it, and no earlier one waits for it.
local function may_settle(receipt, id)
  local text = redis.call('GET', receipt)
  return not text or text == '? ' .. id or string.sub(text, 1, #id + 3) == '? ' .. id .. ' '
end

local function settle(receipt, ledger_id, digest, ttl)
  redis.call('SET', receipt, ledger_id .. ' ' .. digest, 'PX', ttl)
end

-- Removes a message from those that wait to have this effect.
local function withdraw(receipt, id)
  local text = redis.call('GET', receipt)
  if not text or string.sub(text, 1, 2) ~= '? ' then return end
  local rest = {}
  for other in string.gmatch(string.sub(text, 3), '%S+') do
    if other ~= id then rest[#rest + 1] = other end
  end
  if #rest == 0 then
    redis.call('DEL', receipt)
  else
    redis.call('SET', receipt, '? ' .. table.concat(rest, ' '))
  end
end

-- Whether nobody changed the players since they were read; their states begin after argument `first`.
local function are_as_read(players, first)
  for i, player in ipairs(players) do
    local sequence = redis.call('HGET', player_ .. player, 'sequence') or '0'
    if sequence ~= ARGV[first + (i - 1) * state_width + STATE.READ] then return false end
  end
  return true
end

-- Adds a match to the games of its players; for a void only checks the type of the keys.
local function add_games(players, match_id, finished_at)
  added_game = match_id
  for i, player in ipairs(players) do
    if finished_at == '' then
      redis.call('ZCARD', games_ .. player)
    else
      redis.call('ZADD', games_ .. player, finished_at, match_id)
      added = i
    end
  end
end

local function store_states(players, first, match_id, finished_at)
  for i, player in ipairs(players) do
    local base, key = first + (i - 1) * state_width, player_ .. player
    redis.call('HSET', key, 'rating', ARGV[base + STATE.RATING], 'sequence', ARGV[base + STATE.SEQUENCE],
      'games', ARGV[base + STATE.GAMES], 'last_game', ARGV[base + STATE.LAST_GAME])
    for n, name in ipairs(own_fields) do redis.call('HSET', key, name, ARGV[base + STATE.OWN + n]) end
    scores[player] = ARGV[base + STATE.SCORE]
    local closes_at = ARGV[base + STATE.CLOSES_AT]
    if closes_at == '0' then
      redis.call('ZREM', open_periods, player)
    elseif closes_at ~= '' then
      redis.call('ZADD', open_periods, closes_at, player)
    end
    if match_id ~= '' then
      local games, keep_from = games_ .. player, ARGV[base + STATE.KEEP_FROM]
      if finished_at == '' then redis.call('ZREM', games, match_id) end
      if keep_from ~= '' then
        redis.call('ZREMRANGEBYSCORE', games, '-inf', keep_from)
        redis.call('PEXPIRE', games, keep_games)
      end
    end
  end
end

local function change_ratings(outcome, id, replay, receipt, players)
  local exclusive, digest, ttl, match_id, finished_at =
    next_arg(), next_arg(), next_arg(), next_arg(), next_arg()
  local events = next_list()
  local first = position
  position = position + state_width * #players
  local status = pop_heads(id, players)
  if status ~= DONE then return status end
  if exclusive ~= '1' and not may_settle(receipt, id) then return push_back(id, players) end
  if not are_as_read(players, first) then return push_back(id, players) end
  if match_id ~= '' then add_games(players, match_id, finished_at) end
  local ledger_id
  for _, event in ipairs(events) do ledger_id = redis.call('XADD', outbox, '*', 'message', event) end
  settle(receipt, ledger_id, digest, ttl)
  store_states(players, first, match_id, finished_at)
  return finish(id, outcome, replay)
end

local actions = {rated = change_ratings, prize = change_ratings, void = change_ratings}

function actions.closed(outcome, _, _, _, players)
  local event, first = next_arg(), position
  position = position + state_width
  if not are_as_read(players, first) then return CHANGED end
  redis.call('XADD', outbox, '*', 'message', event)
  store_states(players, first, '', '')
  tally[outcome] = (tally[outcome] or 0) + 1
  return DONE
end

actions['not-rated'] = function(outcome, id, replay, receipt, players)
  local digest, ttl = next_arg(), next_arg()
  local status = pop_heads(id, players)
  if status ~= DONE then return status end
  if not may_settle(receipt, id) then return push_back(id, players) end
  settle(receipt, '-', digest, ttl)
  return finish(id, outcome, replay)
end

function actions.duplicate(outcome, id, replay, receipt, players)
  local digest = next_arg()
  local status = pop_heads(id, players)
  if status ~= DONE then return status end
  local text = redis.call('GET', receipt)
  if not text or string.match(text, '^[^?]%S* (%S+)$') ~= digest then return push_back(id, players) end
  return finish(id, outcome, replay)
end

function actions.dead(outcome, id, replay, receipt, players)
  local reason, detail, attempts, first_seen, now, history =
    next_arg(), next_arg(), next_arg(), next_arg(), next_arg(), next_arg()
  local entry = redis.call('XRANGE', inbox, id, id)[1]
  if not entry then return MISSING end
  if reason == 'conflict' then
    -- The other message may have failed since.
    local text = redis.call('GET', receipt)
    if not text or string.sub(text, 1, 2) == '? ' then return CHANGED end
  end
  -- An entry without a message is kept whole, so that nothing of it is lost.
  local raw = field_of(entry, 'message') or cjson.encode(entry[2])
  redis.call('XADD', dead_letters, '*', 'message', raw, 'reason', reason, 'detail', detail,
    'source_id', id, 'attempts', attempts, 'first_seen', first_seen, 'dead_at', now,
    unpack(history ~= '' and {'history', history} or {}))
  -- A key of another type is left as it is.
  for _, player in ipairs(players) do redis.pcall('LREM', line_ .. player, 0, id) end
  if receipt ~= '' then pcall(withdraw, receipt, id) end
  return finish(id, outcome .. ':' .. reason, replay)
end

local statuses = {}
while position < #ARGV do
  local action, id, replay, receipt, players = next_arg(), next_arg(), next_arg(), next_arg(), next_list()
  popped, added = 0, 0
  local ok, status = pcall(actions[action], action, id, replay, receipt, players)
  if not ok then
    for n = 1, added do redis.call('ZREM', games_ .. players[n], added_game) end
    push_back(id, players)
    status = error_text(status)
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
      if #listed == ZADD_CHUNK then
        redis.call('ZADD', leaderboard, unpack(listed))
        listed = {}
      end
    end
  end
  if #listed > 0 then redis.call('ZADD', leaderboard, unpack(listed)) end
  for outcome, number in pairs(tally) do redis.call('HINCRBY', counts, outcome, number) end
end
return statuses
