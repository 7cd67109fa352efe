-- Writes players of another rater, each one wholly or not at all: standing, window, receipts of the games
-- brought along, leaderboard and event change together or stay together.
--
-- KEYS[1]  outbox (stream)                   KEYS[5]  prefix of the games (sorted sets)
-- KEYS[2]  leaderboard (sorted set)          KEYS[6]  prefix of the receipts (strings)
-- KEYS[3]  counts (hash)                     KEYS[7]  players with an open rating period (sorted set)
-- KEYS[4]  prefix of the players (hashes)    KEYS[8]  the ladder's adopted settings (hash)
-- ARGV[1]  digest of these settings for the ladder; when others are adopted, the error OTHERSETTINGS is
--          returned and nothing is written
-- ARGV[2]  '1' when nothing is to be written, only said what would be done
-- ARGV[3]  ms for which a player's games are kept
-- ARGV[4]  ms for which the receipts are kept
-- ARGV[5]  what the receipts say: '- ' and the digest that stands for a game brought along
-- ARGV[6]  how many of the system's own fields a player has, n; ARGV[7..6+n] their names
-- then for each player: player, sequence as read, digest of what is brought along, event JSON, leaderboard
-- score ('' when not listed), the end of the open rating period in ms (0 when none is open), rating, games,
-- last game in ms, own fields ..., number of recent games, finished_at in ms, match id, ...
--
-- Returns for each player: 1 done; {sequence, rating, digest of what was brought along before or false}
-- when the player's sequence is not as read, nothing changed; or a text, the error that kept it from
-- being done.
--
-- Writes: all keys above but the settings; emits one event for each player that is written.

local call = redis.call
local outbox, leaderboard, counts = KEYS[1], KEYS[2], KEYS[3]
local player_, games_, receipt_, open = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local dry, keep_games, keep_receipts, receipt = ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5]

local adopted = call('HGET', KEYS[8], 'digest')
if adopted and adopted ~= ARGV[1] then
  return redis.error_reply('OTHERSETTINGS the ladder is rated by other settings')
end

-- A key that holds something else must stop us before the first write, not in the middle of one.
call('XLEN', outbox)
call('ZCARD', leaderboard)
call('ZCARD', open)
call('HLEN', counts)

local at = 5
local function take()
  at = at + 1
  return ARGV[at]
end

local own_fields = {}
for i = 1, tonumber(take()) do own_fields[i] = take() end

local written, listed, unlisted = 0, {}, {}

-- Writes the player whose arguments begin behind `base`.
local function write(base, player, sequence, digest, count)
  local event, score, closes_at, first = ARGV[base + 4], ARGV[base + 5], ARGV[base + 6], base + 6
  local games_at = first + 4 + #own_fields
  local key, games = player_ .. player, games_ .. player

  if (call('HGET', key, 'sequence') or '0') ~= sequence then
    local stored = call('HMGET', key, 'sequence', 'rating', 'imported')
    return {stored[1] or '0', stored[2] or '', stored[3]}
  end
  if count > 0 then call('ZCARD', games) end
  if dry then return 1 end

  local values = {'rating', ARGV[first + 1], 'sequence', string.format('%d', sequence + 1),
    'games', ARGV[first + 2], 'last_game', ARGV[first + 3], 'imported', digest}
  for n, name in ipairs(own_fields) do
    values[9 + 2 * n] = name
    values[10 + 2 * n] = ARGV[first + 3 + n]
  end
  call('HSET', key, unpack(values))
  if sequence ~= '0' then call('DEL', games) end
  if count > 0 then
    call('ZADD', games, unpack(ARGV, games_at + 1, games_at + 2 * count))
    call('PEXPIRE', games, keep_games)
    for i = games_at + 2, games_at + 2 * count, 2 do
      local match = receipt_ .. ARGV[i]
      if not call('SET', match, receipt, 'NX', 'PX', keep_receipts) then
        -- A message that waits to be rated as this match finds out when it comes to it.
        local text = redis.pcall('GET', match)
        if type(text) == 'string' and string.sub(text, 1, 2) == '? ' then
          call('SET', match, receipt, 'PX', keep_receipts)
        end
      end
    end
  end
  if closes_at ~= '0' then
    call('ZADD', open, closes_at, player)
  elseif sequence ~= '0' then
    call('ZREM', open, player)
  end
  call('XADD', outbox, '*', 'message', event)
  if score == '' then
    unlisted[#unlisted + 1] = player
  else
    listed[#listed + 1] = score
    listed[#listed + 1] = player
  end
  written = written + 1
  return 1
end

local statuses = {}
while at < #ARGV do
  local count = tonumber(ARGV[at + 10 + #own_fields])
  local ok, status = pcall(write, at, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], count)
  if not ok then status = tostring(type(status) == 'table' and status.err or status) end
  at = at + 10 + #own_fields + 2 * count
  statuses[#statuses + 1] = status
end

if #listed > 0 then call('ZADD', leaderboard, unpack(listed)) end
if #unlisted > 0 then call('ZREM', leaderboard, unpack(unlisted)) end
if written > 0 then call('HINCRBY', counts, 'imported', written) end
return statuses
