-- These are over.
--
-- asked.caps       [name, [members]]
-- asked.unspent    [name, interval in seconds, burst, tokens]: of those that did not go after all
--
-- Returns the epoch.

for _, cap in ipairs(asked.caps) do
  for first = 1, #cap[2], PIECE do
    redis.call('ZREM', cap_key(cap[1]), unpack(cap[2], first, math.min(first + PIECE - 1, #cap[2])))
  end
end
for _, unspent in ipairs(asked.unspent) do
  local bucket = read_bucket(unspent[1], unspent[2], unspent[3])
  bucket.full_at = bucket.full_at - unspent[4] * bucket.interval_s
  write_bucket(bucket)
end
return {epoch}
