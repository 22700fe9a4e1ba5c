-- Rates and caps of all nodes: what the scripts of this package have in common.
--
-- KEYS[1]   {prefix}: all keys begin with it, and so live in one slot of a cluster
-- ARGV[1]   the time, in seconds; empty: that of this Redis
-- ARGV[2]   the payload, in JSON
--
-- {prefix}:epoch         when the state that is here began
-- {prefix}:held          sorted set: which nodes have told what they have in flight, and when
-- {prefix}:cap:<name>    sorted set: members of a cap, by the end of their lease
-- {prefix}:rate:<name>   (theoretical arrival time, interval), in seconds; expires once the bucket is full

local base = KEYS[1]
local now = tonumber(ARGV[1])
if not now then
  local parts = redis.call('TIME')
  now = tonumber(parts[1]) + tonumber(parts[2]) / 1000000
end
local asked = cjson.decode(ARGV[2])

local KEPT_MS = 60000  -- longer than it would matter
local IDLE_S = 86400  -- after which nothing is kept of a deployment whose nodes have all gone
local PIECE = 4000  -- words of one command: Lua's stack has 8,000 places

local epoch = redis.call('GET', base .. ':epoch')
if not epoch then
  epoch = string.format('%.6f', now)
  redis.call('SET', base .. ':epoch', epoch, 'EX', IDLE_S)
end
local born_at = tonumber(epoch)

local function cap_key(name) return base .. ':cap:' .. name end

-- A bucket of which nothing is known counts as emptied when this epoch began: it may have been, under the one before.
-- At another interval than last time, what was spent stays spent; it is at worst empty.
local function read_bucket(name, interval_s, burst)
  local key = base .. ':rate:' .. name
  local kept = redis.call('GET', key)
  local full_at, is_changed
  if kept then
    local interval_before
    full_at, interval_before = struct.unpack('dd', kept)
    is_changed = interval_before ~= interval_s
    if is_changed then
      full_at = now + math.max(0, full_at - now) / interval_before * interval_s
    end
    full_at = math.min(full_at, now + burst * interval_s)
  else
    full_at = born_at + burst * interval_s
  end
  return {key = key, interval_s = interval_s, burst = burst, full_at = full_at, is_changed = is_changed}
end

local function write_bucket(bucket)
  local ttl_ms = math.max(0, math.ceil((bucket.full_at - now) * 1000)) + KEPT_MS
  local kept = struct.pack('dd', bucket.full_at, bucket.interval_s)
  redis.call('SET', bucket.key, kept, 'PX', string.format('%.0f', math.min(ttl_ms, 1e15)))
end

-- Lets members in or renews them, and keeps the set for as long as the longest lease.
local function enter(key, members, ends_at, lease_s)
  for first = 1, #members, PIECE / 2 do
    local words = {}
    for i = first, math.min(first + PIECE / 2 - 1, #members) do
      words[#words + 1] = ends_at
      words[#words + 1] = members[i]
    end
    redis.call('ZADD', key, unpack(words))
  end
  redis.call('PEXPIRE', key, math.ceil(lease_s * 1000) + 1000)
end
