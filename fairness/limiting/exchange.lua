-- What all nodes have told of their lanes, and what the one that asks is answered. The rules are in
-- fairness/core/exchange.py; this does what its twin in memory does, fairness/core/board.py.
--
-- KEYS[1]   {prefix}: all keys begin with it, and so live in one slot of a cluster
-- ARGV[1]   the time, in seconds; empty: that of this Redis
-- ARGV[2]   the payload, in JSON
--
-- asked.node, .lease_s, .turn, .horizon
-- asked.lanes              of each: lane, depth, in_flight, wants,
--   .rows                    [tenant, lead over the node's virtual time, weight, cost, waiting, in flight, way]
--   .batches                 [number, [[tenant, amount, 1 if it came], ...]]: more than one after calls without an answer
--
-- {prefix}:lane:<lane>:time    virtual time, and the furthest of all tags that there were
-- {prefix}:lane:<lane>:tags    by tenant: (tag, weight as it was told last)
-- {prefix}:lane:<lane>:seats   by node, in JSON: ends_at, in_flight, wants, places, depth, rows, number of its last batch
--
-- Returns for each lane: whether the node has joined, virtual time, places, in flight, wants, and "tenant tag ...".

local base = KEYS[1]
local now = tonumber(ARGV[1])
if not now then
  local parts = redis.call('TIME')
  now = tonumber(parts[1]) + tonumber(parts[2]) / 1000000
end
local asked = cjson.decode(ARGV[2])

local TURN, HORIZON, TINY = asked.turn, asked.horizon, 1e-9  -- of fairness/core/places.py
local KEPT_MS = 600000        -- a lane that nobody tells of
local PIECE = 4000            -- words of one command: Lua's stack has 8,000 places
local MANY, SWEPT = 1000, 20  -- tags from which on some are looked at in each call, and how many

-- Tags and weights of these tenants into tags and weights; what is not there stays nil.
local function read_tags(key, tenants, tags, weights)
  for first = 1, #tenants, PIECE do
    local last = math.min(first + PIECE - 1, #tenants)
    local found = redis.call('HMGET', key, unpack(tenants, first, last))
    for i = first, last do
      local kept = found[i - first + 1]
      if kept then tags[tenants[i]], weights[tenants[i]] = struct.unpack('dd', kept) end
    end
  end
end

local function write_tags(key, tenants, tags, weights)
  for first = 1, #tenants, PIECE / 2 do
    local words = {}
    for i = first, math.min(first + PIECE / 2 - 1, #tenants) do
      words[#words + 1] = tenants[i]
      words[#words + 1] = struct.pack('dd', tags[tenants[i]], weights[tenants[i]] or 0)
    end
    redis.call('HSET', key, unpack(words))
  end
end

-- Forgets some of the tags that virtual time has passed, of tenants that do not wait: anew, they would be no less.
local function sweep(key, tags_key, virtual_time, is_waiting)
  if redis.call('HLEN', tags_key) < MANY then return end
  local cursor_key = key .. ':swept'
  local found = redis.call('HSCAN', tags_key, redis.call('GET', cursor_key) or '0', 'COUNT', SWEPT)
  redis.call('SET', cursor_key, found[1], 'PX', KEPT_MS)
  for i = 1, #found[2], 2 do
    local tenant, tag = found[2][i], struct.unpack('dd', found[2][i + 1])
    if tag <= virtual_time and not is_waiting[tenant] then redis.call('HDEL', tags_key, tenant) end
  end
end

local function read_seats(key)
  local seats, kept = {}, redis.call('HGETALL', key)
  for i = 1, #kept, 2 do
    local seat = cjson.decode(kept[i + 1])
    if seat.ends_at > now then
      seats[kept[i]] = seat
    else
      redis.call('HDEL', key, kept[i])
    end
  end
  return seats
end

-- What was charged since the last batch that was counted: by tenant {amount, came}.
local function sum_charges(batches, number)
  local charges = {}
  for _, batch in ipairs(batches) do
    if batch[1] > number then
      for _, charge in ipairs(batch[2]) do
        local sum = charges[charge[1]]
        if not sum then
          charges[charge[1]] = {charge[2], charge[3] == 1}
        else
          sum[1], sum[2] = sum[1] + charge[2], sum[2] or charge[3] == 1
        end
      end
    end
  end
  return charges
end

local function take(virtual_time, tenants, rows, charges, tags, weights, has_joined)
  for _, tenant in ipairs(tenants) do
    local row, charge, tag = rows[tenant], charges[tenant] or {0, false}, tags[tenant]
    if not tag then
      tag = virtual_time + math.max(0, row and row[2] or charge[1])
    else
      local before = weights[tenant] or 0
      if row and tag > virtual_time and before > 0 then
        tag = virtual_time + (tag - virtual_time) * before / row[3]
      end
      if charge[2] or (row and has_joined) then tag = math.max(tag, virtual_time) end
      tag = tag + charge[1]
    end
    tags[tenant] = tag
    if row then weights[tenant] = row[3] end
  end
end

-- How high it stands in vessels of these bottoms, widths and tops (one without a top is open) when so much has been
-- poured: a walk up the edges at which the water gets wider, or narrower.
local function level_of(vessels, amount)
  local edges = {}
  for _, vessel in ipairs(vessels) do
    edges[#edges + 1] = {vessel.bottom, vessel.width}
    if vessel.top then edges[#edges + 1] = {vessel.top, -vessel.width} end
  end
  table.sort(edges, function(one, other) return one[1] < other[1] end)
  local at, width, filled, open = edges[1][1], 0, 0, 0
  for _, edge in ipairs(edges) do
    local step = (edge[1] - at) * width
    if open > 0 and filled + step >= amount then return at + (amount - filled) / width end
    filled, at, width = filled + step, edge[1], width + edge[2]
    open = open + (edge[2] > 0 and 1 or -1)
  end
  return open > 0 and at + (amount - filled) / width or at
end

-- fairness/core/places.py
local function pour(vessels, free, depth)
  local weight, cost, wide = 0, 0, {}
  for _, vessel in ipairs(vessels) do
    weight = weight + vessel.weight
    cost = cost + vessel.weight * vessel.cost
    vessel.bottom, vessel.width, vessel.top = vessel.tag, vessel.weight, nil
  end
  local level = level_of(vessels, HORIZON * depth * cost / weight)
  for _, vessel in ipairs(vessels) do
    vessel.bottom, vessel.width = 0, math.max(0, vessel.weight * (level - vessel.tag)) * vessel.held
    if vessel.width > 0 then
      vessel.top = vessel.room / vessel.width
      wide[#wide + 1] = vessel
    end
  end
  local part = level_of(wide, free)
  for _, vessel in ipairs(vessels) do vessel.poured = math.min(part * vessel.width, vessel.room) end
end

local function share_out(depth, seats, tags, virtual_time)
  local exact, free, by_tenant, vessels, behind = {}, depth, {}, {}, {}
  for node, seat in pairs(seats) do
    local kept, lowest = seat.in_flight, nil
    for _, row in ipairs(seat.rows) do
      local tag, room = tags[row[1]] or virtual_time, row[5] + TURN * row[6]
      local vessel = by_tenant[row[1]]
      if not vessel then
        vessel = {tag = tag, weight = row[3], cost = row[4], held = 1 + (row[7] or 0) / row[4], room = 0, on = {}}
        by_tenant[row[1]] = vessel
      end
      vessel.room = vessel.room + room
      vessel.on[#vessel.on + 1] = {node, room}
      kept = kept - TURN * row[6]
      lowest = math.min(lowest or tag, tag)
    end
    if lowest then behind[#behind + 1] = {lowest, node} end
    exact[node] = kept
    free = free - kept
  end
  for _, vessel in pairs(by_tenant) do
    if vessel.room > 0 then vessels[#vessels + 1] = vessel end
  end
  if free > 0 and #vessels > 0 then
    pour(vessels, free, depth)
    for _, vessel in ipairs(vessels) do
      for _, part in ipairs(vessel.on) do
        exact[part[1]] = exact[part[1]] + vessel.poured * part[2] / vessel.room
      end
    end
  end
  local targets, left = {}, depth
  for node, target in pairs(exact) do
    targets[node] = math.floor(target + TINY)
    left = left - targets[node]
  end
  table.sort(behind, function(one, other)
    if one[1] ~= other[1] then return one[1] < other[1] end
    return one[2] < other[2]
  end)
  for i = 1, math.min(left, #behind) do targets[behind[i][2]] = targets[behind[i][2]] + 1 end
  return targets
end

-- Of the lane: the mean of what its nodes take it for, by what each has in flight. A node of an older version, which is
-- replaced just now, has told none, as it has told no way above.
local function depth_of(seats)
  local whole, weights = 0, 0
  for _, seat in pairs(seats) do
    local weight = math.max(1, seat.in_flight)
    if seat.depth then whole, weights = whole + seat.depth * weight, weights + weight end
  end
  return math.floor(whole / weights + 0.5)
end

-- The places of this node; what is in flight in all; and what is wanted.
local function places_of(node, depth, seats, targets)
  local free, coming, in_flight, wants, count = depth, 0, 0, 0, 0
  for name, seat in pairs(seats) do
    count = count + 1
    in_flight = in_flight + seat.in_flight
    wants = wants + seat.wants
    if name ~= node then
      local held = math.max(seat.in_flight, seat.places)
      free = free - held
      coming = coming + math.max(0, math.min(seat.in_flight + seat.wants, math.ceil(targets[name])) - held)
    end
  end
  local spare = math.floor(math.max(0, depth - in_flight - wants) / (count + 1))  -- one part is for a node that is yet to come
  local most = seats[node].in_flight + seats[node].wants + spare
  local target = math.min(math.ceil(targets[node]), free)
  return math.max(0, math.min(most, math.max(target, free - coming))), in_flight, wants
end

local function settle(told)
  local key = base .. ':lane:' .. told.lane
  local tags_key, seats_key, time_key = key .. ':tags', key .. ':seats', key .. ':time'
  local virtual_time, furthest = 0, 0
  local times = redis.call('GET', time_key)
  if times then virtual_time, furthest = struct.unpack('dd', times) end
  local seats = read_seats(seats_key)
  local seat = seats[asked.node]
  local has_joined, number = not seat, seat and seat.number or 0

  local charges, rows, tenants, others, is_waiting = sum_charges(told.batches, number), {}, {}, {}, {}
  local tags, weights = {}, {}
  for _, row in ipairs(told.rows) do
    rows[row[1]] = row
    tenants[#tenants + 1] = row[1]
  end
  -- Those of a batch that was counted before are not charged again, and are told their tags like the others.
  for _, batch in ipairs(told.batches) do
    number = math.max(number, batch[1])
    for _, charge in ipairs(batch[2]) do
      if not rows[charge[1]] and not is_waiting[charge[1]] then
        is_waiting[charge[1]] = true
        tenants[#tenants + 1] = charge[1]
      end
    end
  end
  read_tags(tags_key, tenants, tags, weights)
  take(virtual_time, tenants, rows, charges, tags, weights, has_joined)
  for _, tenant in ipairs(tenants) do furthest = math.max(furthest, tags[tenant]) end

  seat = {ends_at = now + asked.lease_s, in_flight = told.in_flight, wants = told.wants, depth = told.depth}
  seat.rows, seat.places, seat.number = told.rows, 0, number
  seats[asked.node] = seat
  is_waiting = {}
  for _, each in pairs(seats) do
    for _, row in ipairs(each.rows) do
      is_waiting[row[1]] = true
      if not tags[row[1]] then others[#others + 1] = row[1] end
    end
  end
  read_tags(tags_key, others, tags, weights)

  local reached = math.huge
  for tenant in pairs(is_waiting) do reached = math.min(reached, tags[tenant] or virtual_time) end
  if reached == math.huge then
    reached = virtual_time
    for tenant, charge in pairs(charges) do
      if charge[1] > 0 then reached = math.max(reached, tags[tenant] - charge[1]) end
    end
  end
  virtual_time = math.max(virtual_time, reached)

  local in_flight, wants
  local depth = depth_of(seats)
  seat.places, in_flight, wants = places_of(asked.node, depth, seats, share_out(depth, seats, tags, virtual_time))

  local time = string.format('%.17g', virtual_time)
  redis.call('HSET', seats_key, asked.node, cjson.encode(seat))
  redis.call('PEXPIRE', seats_key, KEPT_MS)
  if in_flight == 0 and wants == 0 and next(is_waiting) == nil then
    redis.call('DEL', tags_key)
    virtual_time = furthest
  else
    write_tags(tags_key, tenants, tags, weights)
    redis.call('PEXPIRE', tags_key, KEPT_MS)
    sweep(key, tags_key, virtual_time, is_waiting)
  end
  redis.call('SET', time_key, struct.pack('dd', virtual_time, furthest), 'PX', KEPT_MS)
  local words = {}
  for i, tenant in ipairs(tenants) do words[i] = string.format('%s %.17g', tenant, tags[tenant]) end
  return {has_joined and 1 or 0, time, seat.places, in_flight, wants, table.concat(words, ' ')}
end

if asked.is_leaving then
  for _, lane in ipairs(asked.lanes) do redis.call('HDEL', base .. ':lane:' .. lane .. ':seats', asked.node) end
  return {}
end
local answers = {}
for i, told in ipairs(asked.lanes) do answers[i] = settle(told) end
return answers
