-- Writes players of another rater, each wholly or not at all: state, window, receipts of the imported games,
-- leaderboard and event change together or not at all.
--
-- KEYS[1]  outbox (stream)                   KEYS[5]  prefix of the games (sorted sets)
-- KEYS[2]  leaderboard (sorted set)          KEYS[6]  prefix of the receipts (strings)
-- KEYS[3]  counts (hash)                     KEYS[7]  open rating periods (sorted set)
-- KEYS[4]  prefix of the players (hashes)    KEYS[8]  the ladder's adopted settings (hash)
-- ARGV[1]  digest of these settings for the ladder; when others are adopted, the error OTHERSETTINGS is
--          returned and nothing is written
-- ARGV[2]  '1' to write nothing and only return what would be done
-- ARGV[3]  ms for which a player's games are kept
-- ARGV[4]  ms for which the receipts are kept
-- ARGV[5]  the receipt of an imported game: '- ' and the digest that stands for one
-- ARGV[6]  number of the system's own fields of a player, n; ARGV[7..6+n] their names
-- then for each player: player, sequence as read, digest of what is imported, event JSON, leaderboard score
-- ('' when not listed), end of the open rating period in ms (0 when none is open), rating, games, last game
-- in ms, own fields ..., number of recent games, finished_at in ms, match id, ...
--
-- Returns for each player: 1 (done); {sequence, rating, digest of what was imported before or false} when
-- the sequence is not as read, with nothing changed; or an error text.
--
-- Writes: all keys above but the settings; adds one event for each player that is written.

local call = redis.call
local outbox, leaderboard, counts = KEYS[1], KEYS[2], KEYS[3]
local player_, games_, receipt_, open_periods = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local settings_digest, dry_run = next_arg(), next_arg() == '1'
local keep_games, keep_receipts, receipt = next_arg(), next_arg(), next_arg()
local own_fields = next_list()

local refused = other_settings(KEYS[8], settings_digest)
if refused then return refused end

-- A key that holds another type must stop this script before the first write, not in the middle of one.
call('XLEN', outbox)
call('ZCARD', leaderboard)
call('ZCARD', open_periods)
call('HLEN', counts)

local function next_player()
  local found = {
    player = next_arg(), sequence = next_arg(), digest = next_arg(), event = next_arg(), score = next_arg(),
    closes_at = next_arg(), rating = next_arg(), games = next_arg(), last_game = next_arg(), own = {},
    recent = {},
  }
  for i = 1, #own_fields do found.own[i] = next_arg() end
  for i = 1, 2 * tonumber(next_arg()) do found.recent[i] = next_arg() end
  return found
end

local function set_receipt(match_id)
  local key = receipt_ .. match_id
  if call('SET', key, receipt, 'NX', 'PX', keep_receipts) then return end
  -- A message that waits to be rated as this match learns about it when its turn comes.
  local text = redis.pcall('GET', key)
  if type(text) == 'string' and string.sub(text, 1, 2) == '? ' then
    call('SET', key, receipt, 'PX', keep_receipts)
  end
end

local written, listed, unlisted = 0, {}, {}

local function write(new)
  local player, is_new = new.player, new.sequence == '0'
  local key, games = player_ .. player, games_ .. player

  if (call('HGET', key, 'sequence') or '0') ~= new.sequence then
    local stored = call('HMGET', key, 'sequence', 'rating', 'imported')
    return {stored[1] or '0', stored[2] or '', stored[3]}
  end
  if #new.recent > 0 then call('ZCARD', games) end
  if dry_run then return 1 end

  local values = {
    'rating', new.rating, 'sequence', string.format('%d', new.sequence + 1), 'games', new.games,
    'last_game', new.last_game, 'imported', new.digest,
  }
  for i, name in ipairs(own_fields) do
    values[#values + 1] = name
    values[#values + 1] = new.own[i]
  end
  call('HSET', key, unpack(values))
  if not is_new then call('DEL', games) end
  if #new.recent > 0 then
    call('ZADD', games, unpack(new.recent))
    call('PEXPIRE', games, keep_games)
    for i = 2, #new.recent, 2 do set_receipt(new.recent[i]) end
  end
  if new.closes_at ~= '0' then
    call('ZADD', open_periods, new.closes_at, player)
  elseif not is_new then
    call('ZREM', open_periods, player)
  end
  call('XADD', outbox, '*', 'message', new.event)
  if new.score == '' then
    unlisted[#unlisted + 1] = player
  else
    listed[#listed + 1] = new.score
    listed[#listed + 1] = player
  end
  written = written + 1
  return 1
end

local statuses = {}
while position < #ARGV do
  local ok, status = pcall(write, next_player())
  statuses[#statuses + 1] = ok and status or error_text(status)
end

if #listed > 0 then call('ZADD', leaderboard, unpack(listed)) end
if #unlisted > 0 then call('ZREM', leaderboard, unpack(unlisted)) end
if written > 0 then call('HINCRBY', counts, 'imported', written) end
return statuses
