-- Reads, in one step, everything that rating a batch needs.
--
-- KEYS[1]  prefix of the players (hashes)
-- KEYS[2]  prefix of the games (sorted sets)
-- KEYS[3]  prefix of the lines (lists)
-- KEYS[4]  outbox (stream)
-- ARGV[1]  JSON: {"fields": hash fields to read, "players": [[player, number of ids of the line wanted],
--          ...], "windows": [[player, from ms, "(" before ms], ...], "receipts": [key, ...],
--          "events": [[receipt key, ledger id or ""], ...]}
--
-- Returns {server time in ms, players, windows, receipts, events}:
--   players   for each {line ids, field values}; instead of the values a text '!...' when a key of the
--             player holds another type
--   windows   for each the number of games with from <= finished_at < before, or a text '!...'
--   receipts  for each the receipt, false, or a text '!...'
--   events    for each the receipt and the ledger's event, or false; the event is that of the receipt's
--             ledger id, or without a receipt that of the given one
--
-- Writes nothing.

local player_, games_, line_, outbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local wanted = cjson.decode(ARGV[1])

local players = {}
for i, item in ipairs(wanted.players) do
  local line = item[2] > 0 and redis.pcall('LRANGE', line_ .. item[1], 0, item[2] - 1) or {}
  local values = redis.pcall('HMGET', player_ .. item[1], unpack(wanted.fields))
  if line.err then
    players[i] = {{}, '!' .. tostring(line.err)}
  else
    players[i] = {line, values.err and '!' .. tostring(values.err) or values}
  end
end

local windows = {}
for i, item in ipairs(wanted.windows) do
  local count = redis.pcall('ZCOUNT', games_ .. item[1], item[2], item[3])
  windows[i] = type(count) == 'number' and count or '!' .. tostring(count.err)
end

local receipts = {}
for i, key in ipairs(wanted.receipts) do
  local receipt = redis.pcall('GET', key)
  receipts[i] = type(receipt) == 'table' and '!' .. tostring(receipt.err) or receipt
end

local events = {}
for i, item in ipairs(wanted.events) do
  local receipt, ledger_id, entry = redis.pcall('GET', item[1]), item[2], nil
  if type(receipt) == 'string' then ledger_id = string.match(receipt, '^(%d+%-%d+) ') end
  if ledger_id and ledger_id ~= '' then entry = redis.call('XRANGE', outbox, ledger_id, ledger_id)[1] end
  events[i] = {type(receipt) == 'string' and receipt or false, entry and entry[2][2] or false}
end

return {now_ms(), players, windows, receipts, events}
