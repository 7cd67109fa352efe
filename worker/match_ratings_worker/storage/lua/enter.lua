-- Lets a worker into a ladder: makes the consumer group of its side, unless the ladder is the other
-- side's. Entries are deleted when done, so that workers and the workers of a shadow, which would each
-- take matches away from the other, never share an inbox.
--
-- KEYS[1]  inbox (stream)
-- KEYS[2]  the shadow's adopted settings (hash); its digest is 'cleared' from the beginning of the
--          clearing of a shadow on, so that no commit of a worker that slept through it is accepted
-- ARGV[1]  consumer group of this worker's side
-- ARGV[2]  consumer group of the other side
-- ARGV[3]  '1' when this worker's side is the shadow
--
-- Returns 'entered'; or why not: 'live' (the other side is the ladder's own workers), 'shadow' (it is a
-- shadow's), 'clearing' (a shadow is being cleared).
--
-- Writes: the group, and with it the inbox; a new shadow removes what a cleared one has left.

local inbox, own, other, is_shadow = KEYS[1], ARGV[1], ARGV[2], ARGV[3] == '1'
local groups = {}
if redis.call('EXISTS', inbox) == 1 then
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', inbox)) do
    for i = 1, #info, 2 do
      if info[i] == 'name' then groups[info[i + 1]] = true end
    end
  end
end

if groups[other] then return is_shadow and 'live' or 'shadow' end
if is_shadow and redis.call('HGET', KEYS[2], 'digest') == 'cleared' then
  if groups[own] then return 'clearing' end
  redis.call('DEL', KEYS[2])
end
if not groups[own] then redis.call('XGROUP', 'CREATE', inbox, own, '0', 'MKSTREAM') end
return 'entered'
