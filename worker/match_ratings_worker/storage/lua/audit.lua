-- Reads what is stored of some players, and how far the ledger had come at that moment.
--
-- KEYS[1]  outbox (stream)
-- KEYS[2]  leaderboard (sorted set)
-- KEYS[3]  players with an open rating period (sorted set)
-- KEYS[4]  prefix of the players (hashes)
-- KEYS[5]  prefix of the games (sorted sets)
-- KEYS[6]  counts (hash)
-- ARGV[1]  how many hash fields, n; ARGV[2..1+n] their names
-- then for each player: player, from when on games are wanted (ms)
--
-- Returns {id of the ledger's newest event or '0-0', server time in ms, counts, players}; each player is
-- {field values, leaderboard score, end of the open period, games (id, finished_at, ...)}, or a text when
-- one of these keys holds something else.
--
-- Writes nothing.

local fields, at = {}, 1
for i = 1, tonumber(ARGV[1]) do fields[i] = ARGV[1 + i] end
at = 2 + #fields

local function read(player, from)
  return {
    redis.call('HMGET', KEYS[4] .. player, unpack(fields)),
    redis.call('ZSCORE', KEYS[2], player),
    redis.call('ZSCORE', KEYS[3], player),
    redis.call('ZRANGEBYSCORE', KEYS[5] .. player, from, '+inf', 'WITHSCORES'),
  }
end

local players = {}
for i = at, #ARGV, 2 do
  local ok, found = pcall(read, ARGV[i], ARGV[i + 1])
  players[#players + 1] = ok and found or tostring(type(found) == 'table' and found.err or found)
end

local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local time = redis.call('TIME')
local counts = redis.call('HGETALL', KEYS[6])
return {newest and newest[1] or '0-0', time[1] * 1000 + math.floor(time[2] / 1000), counts, players}
