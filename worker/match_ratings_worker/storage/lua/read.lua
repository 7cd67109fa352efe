-- Reads, in one step, all that rating a batch needs.
--
-- KEYS[1]  prefix of the players (hashes)
-- KEYS[2]  prefix of the games (sorted sets)
-- KEYS[3]  prefix of the lines (lists)
-- ARGV[1]  JSON: {"fields": the hash fields to read, "players": [[player, ids of the line wanted, or 0],
--          ...], "windows": [[player, from ms, "(" before ms], ...], "receipts": [key, ...],
--          "events": [[receipt key, ledger id or ""], ...]}
-- KEYS[4]  outbox (stream)
--
-- Returns {server time in ms, players, windows, receipts, events}:
--   players   for each {line ids, field values}; instead of the values a text '!...' when a key of this
--             player holds something that is no rating data
--   windows   for each the number of games with from <= finished_at < before, or a text '!...'
--   receipts  for each the receipt or false
--   events    for each the text of the receipt and the ledger's event, either false where there is none;
--             the event is the one that the receipt names, or without a receipt the one with the ledger id
--
-- Writes nothing.

local wanted = cjson.decode(ARGV[1])
local players, windows, receipts = {}, {}, {}

for i, item in ipairs(wanted.players) do
  local line = item[2] > 0 and redis.pcall('LRANGE', KEYS[3] .. item[1], 0, item[2] - 1) or {}
  local values = redis.pcall('HMGET', KEYS[1] .. item[1], unpack(wanted.fields))
  if line.err then
    players[i] = {{}, '!' .. tostring(line.err)}
  else
    players[i] = {line, values.err and '!' .. tostring(values.err) or values}
  end
end
for i, item in ipairs(wanted.windows) do
  local count = redis.pcall('ZCOUNT', KEYS[2] .. item[1], item[2], item[3])
  windows[i] = type(count) == 'number' and count or '!' .. tostring(count.err)
end
for i, key in ipairs(wanted.receipts) do
  local receipt = redis.pcall('GET', key)
  receipts[i] = type(receipt) == 'table' and '!' .. tostring(receipt.err) or receipt
end

local events = {}
for i, item in ipairs(wanted.events) do
  local receipt, ledger_id, entry = redis.pcall('GET', item[1]), item[2], nil
  if type(receipt) == 'string' then ledger_id = string.match(receipt, '^(%d+%-%d+) ') end
  if ledger_id and ledger_id ~= '' then entry = redis.call('XRANGE', KEYS[4], ledger_id, ledger_id)[1] end
  events[i] = {type(receipt) == 'string' and receipt or false, entry and entry[2][2] or false}
end

local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), players, windows, receipts, events}
