-- Takes dead letters out for good and keeps them in a log, each in one step.
--
-- KEYS[1]  dead letters (stream)
-- KEYS[2]  discarded (stream)
-- ARGV[1]  now in ms
-- ARGV[2]  who
-- ARGV[3]  why
-- ARGV[4]  id of a dead letter; ARGV[5], ... more of them
--
-- Returns for each 1 when it was discarded, 0 when it was no longer there.
--
-- Writes: both streams; the log's entry has all fields of the letter and `letter` (its id), `at`, `who`
-- and `why`.

local letters, log = KEYS[1], KEYS[2]
redis.call('XLEN', log)  -- a key that holds something else must stop us before the first write

local done = {}
for i = 4, #ARGV do
  local id = ARGV[i]
  local entry = redis.call('XRANGE', letters, id, id)[1]
  if entry then
    redis.call('XADD', log, '*', 'letter', id, 'at', ARGV[1], 'who', ARGV[2], 'why', ARGV[3], unpack(entry[2]))
    redis.call('XDEL', letters, id)
  end
  done[#done + 1] = entry and 1 or 0
end
return done
