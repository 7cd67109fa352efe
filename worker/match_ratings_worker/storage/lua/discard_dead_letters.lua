-- Removes dead letters for good and records them in a log, each in one step.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  discarded (stream)
-- ARGV[1]  now in ms
-- ARGV[2]  who discards them
-- ARGV[3]  why
-- ARGV[4..] ids of dead letters
--
-- Returns for each 1 (discarded) or 0 (no longer there).
--
-- Writes: both streams; the entry of the log has all fields of the letter and `letter` (its id), `at` (ms),
-- `who` and `why`.

local dead_letters, discarded = KEYS[1], KEYS[2]
local now, who, why = ARGV[1], ARGV[2], ARGV[3]
redis.call('XLEN', discarded)  -- a key of another type must stop this script before the first write

local done = {}
for i = 4, #ARGV do
  local id = ARGV[i]
  local entry = redis.call('XRANGE', dead_letters, id, id)[1]
  if entry then
    redis.call('XADD', discarded, '*', 'letter', id, 'at', now, 'who', who, 'why', why, unpack(entry[2]))
    redis.call('XDEL', dead_letters, id)
  end
  done[#done + 1] = entry and 1 or 0
end
return done
