-- Lets a worker into a ladder: creates the consumer group of its side, unless the other side rates the
-- ladder. Entries are deleted once settled, so live workers and shadow workers, which would take matches
-- away from each other, never share an inbox.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  the shadow's adopted settings (hash); from the start of its clearing its digest is 'cleared', so
--          that no commit of a worker that slept through the clearing is accepted
-- ARGV[1]  consumer group of this worker's side
-- ARGV[2]  consumer group of the other side
-- ARGV[3]  '1' when this worker's side is the shadow
--
-- Returns 'entered'; or why not: 'live' (live workers rate the ladder), 'shadow' (a shadow does),
-- 'clearing' (a shadow is being cleared).
--
-- Writes: the group, and with it the inbox; a new shadow removes the mark that a cleared one left.

local inbox, own, other, is_shadow = KEYS[1], ARGV[1], ARGV[2], ARGV[3] == '1'
local groups = groups_of(inbox)

if groups[other] then return is_shadow and 'live' or 'shadow' end
if is_shadow and redis.call('HGET', KEYS[2], 'digest') == 'cleared' then
  if groups[own] then return 'clearing' end
  redis.call('DEL', KEYS[2])
end
if not groups[own] then redis.call('XGROUP', 'CREATE', inbox, own, '0', 'MKSTREAM') end
return 'entered'
