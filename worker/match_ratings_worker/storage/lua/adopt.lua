-- Adopts settings for a ladder when those that are adopted now are the ones expected, and notes it in
-- the ladder's history. From then on the commit script turns away workers with other settings.
--
-- KEYS[1]  the adopted settings (hash)
-- KEYS[2]  their history (stream)
-- KEYS[3]  outbox (stream)
-- ARGV[1]  digest of the settings that are expected to be adopted now; '' for none
-- ARGV[2]  digest of the new settings
-- ARGV[3]  the rating system's name
-- ARGV[4]  the settings, JSON
-- ARGV[5]  who adopts them
-- ARGV[6]  why
--
-- Returns 1 done; 0 others are adopted than expected, nothing changed.
--
-- Writes: KEYS[1] anew; KEYS[2] one entry with the same fields: digest, system, settings, at (ms), who,
-- why, after (the last event that the ledger had: later ones were rated by these settings).

if (redis.call('HGET', KEYS[1], 'digest') or '') ~= ARGV[1] then return 0 end

local time = redis.call('TIME')
local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
local fields = {
  'digest', ARGV[2], 'system', ARGV[3], 'settings', ARGV[4],
  'at', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)),
  'who', ARGV[5], 'why', ARGV[6], 'after', last and last[1] or '0-0',
}
redis.call('XADD', KEYS[2], '*', unpack(fields))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(fields))
return 1
