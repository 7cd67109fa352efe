-- Reads, in one step, all that rating a batch needs.
--
-- KEYS[1]  prefix of the players (hashes)
-- KEYS[2]  prefix of the games (sorted sets)
-- KEYS[3]  prefix of the lines (lists)
-- ARGV[1]  JSON: {"fields": the hash fields to read, "players": [[player, ids of the line wanted], ...],
--          "windows": [[player, from ms, before ms], ...], "receipts": [key, ...]}
--
-- Returns {server time in ms, players, windows, receipts}:
--   players   for each {line ids, field values}; instead of the values a text '!...' when a key of this
--             player holds something that is no rating data
--   windows   for each the number of games with from <= finished_at < before
--   receipts  for each the receipt or false
--
-- Writes nothing.

local wanted = cjson.decode(ARGV[1])
local players, windows, receipts = {}, {}, {}

for i, item in ipairs(wanted.players) do
  local line = redis.pcall('LRANGE', KEYS[3] .. item[1], 0, item[2] - 1)
  local values = redis.pcall('HMGET', KEYS[1] .. item[1], unpack(wanted.fields))
  local kind = redis.call('TYPE', KEYS[2] .. item[1]).ok
  if line.err then
    players[i] = {{}, '!' .. line.err}
  elseif values.err then
    players[i] = {line, '!' .. values.err}
  elseif kind ~= 'zset' and kind ~= 'none' then
    players[i] = {line, '!WRONGTYPE the games are a ' .. kind}
  else
    players[i] = {line, values}
  end
end
for i, item in ipairs(wanted.windows) do
  local count = redis.pcall('ZCOUNT', KEYS[2] .. item[1], item[2], '(' .. item[3])
  windows[i] = type(count) == 'number' and count or 0
end
for i, key in ipairs(wanted.receipts) do
  local receipt = redis.pcall('GET', key)
  receipts[i] = type(receipt) == 'table' and '!' .. receipt.err or receipt
end

local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), players, windows, receipts}
