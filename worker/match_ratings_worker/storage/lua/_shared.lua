-- Functions for all scripts; `Script` puts this text before each of them.

-- The server's clock, in ms.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The position in ARGV of the argument that was taken last.
local position = 0

local function next_arg()
  position = position + 1
  return ARGV[position]
end

-- Takes a number n and n arguments, and returns these.
local function next_list()
  local list = {}
  for i = 1, tonumber(next_arg()) do list[i] = next_arg() end
  return list
end

-- A field of a stream entry; nil when the entry has none of this name.
local function field_of(entry, name)
  local fields = entry[2]
  for i = 1, #fields, 2 do
    if fields[i] == name then return fields[i + 1] end
  end
end

-- A reply of names and values by turns, such as XINFO gives, as a table.
local function to_table(reply)
  local found = {}
  for i = 1, #reply, 2 do found[reply[i]] = reply[i + 1] end
  return found
end

-- The consumer groups of a stream by name, as XINFO describes them; none where there is no stream.
local function groups_of(stream)
  local groups = {}
  if redis.call('EXISTS', stream) == 1 then
    for _, reply in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
      local group = to_table(reply)
      groups[group.name] = group
    end
  end
  return groups
end

-- Time since a consumer, as XINFO describes it, last asked for messages, in ms. Before 7.2, Redis counts
-- a consumer as idle since it last received a message; so its heartbeat counts too.
local function silent_ms(consumer, heartbeats, now)
  return math.min(consumer.idle, now - tonumber(redis.call('HGET', heartbeats, consumer.name) or 0))
end

-- An error reply when settings with another digest are adopted, else nil. While nothing is adopted, any
-- are accepted.
local function other_settings(settings, digest)
  local adopted = redis.call('HGET', settings, 'digest')
  if adopted and adopted ~= digest then
    return redis.error_reply('OTHERSETTINGS the ladder is rated by other settings')
  end
end

-- What an error caught by pcall says.
local function error_text(caught)
  return tostring(type(caught) == 'table' and caught.err or caught)
end
