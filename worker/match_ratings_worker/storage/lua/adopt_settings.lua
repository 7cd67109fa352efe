-- Adopts settings for a ladder if those adopted now are the expected ones, and records them in the history.
-- From then on commit_batch.lua refuses workers with other settings.
--
-- KEYS[1]  the adopted settings (hash)
-- KEYS[2]  their history (stream)
-- KEYS[3]  outbox (stream)
-- ARGV[1]  digest of the settings expected to be adopted now; '' for none
-- ARGV[2]  digest of the new settings
-- ARGV[3]  name of the rating system
-- ARGV[4]  the settings, JSON
-- ARGV[5]  who adopts them
-- ARGV[6]  why
--
-- Returns 1 (done) or 0 (others are adopted than expected, nothing changed).
--
-- Writes: KEYS[1] from scratch; KEYS[2] one entry with the same fields: digest, system, settings, at (ms),
-- who, why, after (the ledger's last event then: later ones were rated by these settings).

local settings, history, outbox = KEYS[1], KEYS[2], KEYS[3]
if (redis.call('HGET', settings, 'digest') or '') ~= ARGV[1] then return 0 end

local last = redis.call('XREVRANGE', outbox, '+', '-', 'COUNT', 1)[1]
local fields = {
  'digest', ARGV[2], 'system', ARGV[3], 'settings', ARGV[4], 'at', string.format('%.0f', now_ms()),
  'who', ARGV[5], 'why', ARGV[6], 'after', last and last[1] or '0-0',
}
redis.call('XADD', history, '*', unpack(fields))
redis.call('DEL', settings)
redis.call('HSET', settings, unpack(fields))
return 1
