-- These are in flight, whatever any limit says.
--
-- asked.node       who holds them
-- asked.lease_s    of a member
-- asked.caps       [name, [members]]
-- asked.spent      [name, interval in seconds, burst, tokens, of all]: what this node has spent while it asked nobody,
--                  and what all have if each did likewise: those that are yet to come back
-- asked.is_all     with these it has told all that it has in flight
--
-- Returns the epoch.

local KEPT_S = 3600  -- what is known of nodes that are gone

for _, cap in ipairs(asked.caps) do
  enter(cap_key(cap[1]), cap[2], string.format('%.6f', now + asked.lease_s), asked.lease_s)
end
for _, spent in ipairs(asked.spent) do
  local bucket = read_bucket(spent[1], spent[2], spent[3])
  bucket.full_at = math.max(bucket.full_at, now) + spent[4] * bucket.interval_s
  bucket.full_at = math.max(bucket.full_at, now + spent[5] * bucket.interval_s)
  bucket.full_at = math.min(bucket.full_at, now + bucket.burst * bucket.interval_s)
  write_bucket(bucket)
end
if asked.is_all then
  redis.call('ZADD', base .. ':held', string.format('%.6f', now), asked.node)
  redis.call('ZREMRANGEBYSCORE', base .. ':held', '-inf', string.format('(%.6f', now - KEPT_S))
  redis.call('EXPIRE', base .. ':held', IDLE_S)
  redis.call('EXPIRE', base .. ':epoch', IDLE_S)
end
return {epoch}
