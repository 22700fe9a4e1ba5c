-- Tokens for fires that are yet to come: what is beyond half of the bucket, at most.
--
-- asked.wanted     [name, interval in seconds, burst, tokens]
--
-- Returns the epoch, and how many of each were spent.

local answer = {epoch}
for place, wanted in ipairs(asked.wanted) do
  local bucket = read_bucket(wanted[1], wanted[2], wanted[3])
  local tokens = bucket.burst - math.max(0, bucket.full_at - now) / bucket.interval_s
  local granted = math.max(0, math.min(wanted[4], math.floor(tokens - bucket.burst / 2)))
  if granted > 0 or bucket.is_changed then
    bucket.full_at = math.max(bucket.full_at, now) + granted * bucket.interval_s
    write_bucket(bucket)
  end
  answer[place + 1] = granted
end
return answer
