-- Finds which of a worker's messages are no longer in the inbox: others took them over and settled them.
--
-- KEYS[1]  inbox (stream)
-- ARGV     message ids
--
-- Returns the ids that are missing.
--
-- Writes nothing.

local missing = {}
for _, id in ipairs(ARGV) do
  if not redis.call('XRANGE', KEYS[1], id, id)[1] then missing[#missing + 1] = id end
end
return missing
