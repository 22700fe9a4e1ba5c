-- May these go? In their order, each atomic over all its bounds: caps, then rates; a refusal spends nothing.
--
-- asked.node, .nodes   who asks, and all nodes that are alive
-- asked.lease_s        of a member
-- asked.bounds         [name, cap or -1, interval in seconds or 0, burst]
-- asked.requests       [member, place of a bound (from 1), ...], bounds the widest first
--
-- Returns the epoch, and for each refusal four numbers: place of the request, which of its bounds (both from 0),
-- 1 for a cap and 2 for a rate, and after how many microseconds to ask again, or -1.

local CAP, RATE = 1, 2
local REBUILD_US = 250000
local TINY_S = 0.000001  -- what sums of seconds since 1970 may be wrong by; early is paid for by the next
local ends_at = string.format('%.6f', now + asked.lease_s)

-- Nothing is admitted under a cap until it is known what is in flight: once all nodes have told it under this epoch, or
-- what they do not tell would have lost its lease.
local function caps_are_rebuilt()
  if now - born_at >= asked.lease_s then return redis.call('ZSCORE', base .. ':held', asked.node) end
  for first = 1, #asked.nodes, PIECE do
    local told = redis.call('ZMSCORE', base .. ':held', unpack(asked.nodes, first, math.min(first + PIECE - 1, #asked.nodes)))
    for _, at in ipairs(told) do
      if not at then return false end
    end
  end
  return true
end

-- caps: those of the bounds that have one, each with its members among the requests
local caps, buckets = {}, {}
for place, bound in ipairs(asked.bounds) do
  if bound[2] >= 0 then
    caps[place] = {key = cap_key(bound[1]), limit = bound[2], asking = {}, is_in = {}, entered = {}}
  end
  if bound[3] > 0 then buckets[place] = read_bucket(bound[1], bound[3], bound[4]) end
end
for _, request in ipairs(asked.requests) do
  for i = 2, #request do
    local cap = caps[request[i]]
    if cap then cap.asking[#cap.asking + 1] = request[1] end
  end
end
for _, cap in pairs(caps) do
  redis.call('ZREMRANGEBYSCORE', cap.key, '-inf', string.format('%.6f', now))
  cap.count = redis.call('ZCARD', cap.key)
  for first = 1, #cap.asking, PIECE do
    local last = math.min(first + PIECE - 1, #cap.asking)
    local scores = redis.call('ZMSCORE', cap.key, unpack(cap.asking, first, last))
    for i = first, last do
      if scores[i - first + 1] then cap.is_in[cap.asking[i]] = true end
    end
  end
end
local is_rebuilt = next(caps) == nil or caps_are_rebuilt()

local function wait_for_cap_us(cap)
  if not cap.wait_us then
    local oldest = redis.call('ZRANGE', cap.key, 0, 0, 'WITHSCORES')
    local wait_s = oldest[2] and tonumber(oldest[2]) - now or 1
    cap.wait_us = wait_s < 1 and math.ceil(wait_s * 1000000) or -1
  end
  return cap.wait_us
end

-- Returns which bound refuses, why, and for how long; nothing if none does.
local function refused_by(request)
  for i = 2, #request do
    local cap = caps[request[i]]
    if cap then
      if not is_rebuilt then return i - 2, CAP, REBUILD_US end
      if cap.count >= cap.limit then return i - 2, CAP, wait_for_cap_us(cap) end
    end
  end
  for i = 2, #request do
    local bucket = buckets[request[i]]
    if bucket then
      local opens_at = bucket.full_at - (bucket.burst - 1) * bucket.interval_s
      if opens_at > now + TINY_S then return i - 2, RATE, math.ceil((opens_at - now) * 1000000) end
    end
  end
end

local answer = {epoch}
for place, request in ipairs(asked.requests) do
  local member, is_in = request[1], false
  for i = 2, #request do
    local cap = caps[request[i]]
    if cap and cap.is_in[member] then is_in = true end
  end
  local bound, why, wait_us
  if not is_in then bound, why, wait_us = refused_by(request) end
  if bound then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = place - 1, bound, why, wait_us
  else
    for i = 2, #request do
      local cap, bucket = caps[request[i]], buckets[request[i]]
      if cap then
        if not cap.is_in[member] then
          cap.is_in[member] = true
          cap.count = cap.count + 1
        end
        cap.entered[#cap.entered + 1] = member
      end
      if bucket and not is_in then
        bucket.full_at = math.max(bucket.full_at, now) + bucket.interval_s
        bucket.is_changed = true
      end
    end
  end
end

for _, cap in pairs(caps) do
  if #cap.entered > 0 then enter(cap.key, cap.entered, ends_at, asked.lease_s) end
end
for _, bucket in pairs(buckets) do
  if bucket.is_changed then write_bucket(bucket) end
end
return answer
