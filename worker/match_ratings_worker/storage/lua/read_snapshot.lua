-- Reads the stored data of some players together with the end of the ledger, at one moment.
--
-- KEYS[1]  outbox (stream)
-- KEYS[2]  leaderboard (sorted set)
-- KEYS[3]  open rating periods (sorted set)
-- KEYS[4]  prefix of the players (hashes)
-- KEYS[5]  prefix of the games (sorted sets)
-- KEYS[6]  counts (hash)
-- ARGV[1]  number of hash fields, n; ARGV[2..1+n] their names
-- then for each player: player, the time in ms from which on games are wanted
--
-- Returns {id of the ledger's newest event or '0-0', server time in ms, counts, players}; each player is
-- {field values, leaderboard score, end of the open period, games (id, finished_at, ...)}, or an error text
-- when one of these keys holds another type.
--
-- Writes nothing.

local outbox, leaderboard, open_periods, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[6]
local player_, games_ = KEYS[4], KEYS[5]
local fields = next_list()

local function read(player, from)
  return {
    redis.call('HMGET', player_ .. player, unpack(fields)),
    redis.call('ZSCORE', leaderboard, player),
    redis.call('ZSCORE', open_periods, player),
    redis.call('ZRANGEBYSCORE', games_ .. player, from, '+inf', 'WITHSCORES'),
  }
end

local players = {}
while position < #ARGV do
  local ok, found = pcall(read, next_arg(), next_arg())
  players[#players + 1] = ok and found or error_text(found)
end

local newest = redis.call('XREVRANGE', outbox, '+', '-', 'COUNT', 1)[1]
return {newest and newest[1] or '0-0', now_ms(), redis.call('HGETALL', counts), players}
