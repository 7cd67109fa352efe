-- Says which of a worker's messages are no longer in the inbox: others took them over and settled them.
--
-- KEYS[1]  inbox (stream)
-- ARGV     the messages' ids
--
-- Returns the ids that are gone.
--
-- Writes nothing.

local gone = {}
for _, id in ipairs(ARGV) do
  if not redis.call('XRANGE', KEYS[1], id, id)[1] then gone[#gone + 1] = id end
end
return gone
