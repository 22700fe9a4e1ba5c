-- What has to be had in Postgres before a fire may be published: a part of its tenant's budget of the day, and a slot of each strict cap.

-- name: make_budgets
INSERT INTO fairness_budget (tenant_id, day, taken)
SELECT t.id, %(day)s, 0 FROM fairness_tenant t
WHERE t.id = ANY (%(tenants)s::integer[]) AND t.daily_fires IS NOT NULL
ORDER BY t.id
ON CONFLICT (tenant_id, day) DO NOTHING

-- name: take_budget
-- As much as is wanted; or, where that is more, the chunk for what comes next: a tenth of what is left, up to so many.
WITH held AS MATERIALIZED (  -- each row as whoever changed it last has left it
    SELECT b.id, w.wanted, t.daily_fires, t.daily_fires - b.taken AS remaining
    FROM unnest(%(tenants)s::integer[], %(wanted)s::integer[]) AS w(tenant_id, wanted)
    JOIN fairness_tenant t ON t.id = w.tenant_id
    JOIN fairness_budget b ON b.tenant_id = w.tenant_id AND b.day = %(day)s
    ORDER BY b.id
    FOR NO KEY UPDATE OF b
)
UPDATE fairness_budget b SET taken = b.taken + g.granted, changed_at = clock_timestamp()
FROM held h CROSS JOIN LATERAL (
    SELECT least(h.remaining, greatest(h.wanted, least(%(chunk)s, h.remaining / 10))) AS granted
) AS g
WHERE b.id = h.id AND g.granted > 0 AND b.taken + g.granted <= h.daily_fires
RETURNING b.tenant_id, g.granted

-- name: return_budget
WITH held AS MATERIALIZED (
    SELECT b.id, r.unused
    FROM unnest(%(tenants)s::integer[], %(unused)s::integer[]) AS r(tenant_id, unused)
    JOIN fairness_budget b ON b.tenant_id = r.tenant_id AND b.day = %(day)s
    ORDER BY b.id
    FOR NO KEY UPDATE OF b
)
UPDATE fairness_budget b SET taken = greatest(0, b.taken - h.unused), changed_at = clock_timestamp()
FROM held h WHERE b.id = h.id

-- name: lock_slots
-- One node at a time gives out slots of a tenant. What is read next, by a statement of its own, is read as the one before has left it:
-- a statement that had waited for rows would see them new, and the fires that have them old.
SELECT pg_advisory_xact_lock(%(lock)s, tenant_id) FROM unnest(%(tenants)s::integer[]) AS asked(tenant_id)

-- name: plain
coalesce((SELECT NOT k.is_guarded FROM scheduling_job j JOIN scheduling_workertask k ON k.name = j.task WHERE j.id = f.job_id), false)

-- name: slots
-- And whether each is taken. While its fire has the fence under which it took it, a message may be on its way: a claimed or running one
-- has it; a parked one, or one that waits for a retry, has no need of it now. (Nobody sees the end of a
-- plain task: it is over as it is sent. Of a task that no worker has told of yet nobody knows: it holds its slot.)
SELECT s.tenant_id, s.lane, s.task, s.number, s.fire_id, s.scheduled_for, s.history_days, s.fence, CASE
    WHEN f.state = 'claimed' AND (f.confirmed OR (f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq)) AND {plain} THEN 'free'
    WHEN f.state IN ('claimed', 'running') THEN 'taken'
    WHEN f.state IN ('parked', 'retry_wait') THEN 'waits'
    ELSE 'free' END
FROM unnest(%(tenants)s::integer[], %(lanes)s::text[], %(tasks)s::text[]) AS c(tenant_id, lane, task)
JOIN scheduling_slot s ON (s.tenant_id, s.lane, s.task) = (c.tenant_id, c.lane, c.task)
LEFT JOIN scheduling_fire f
    ON (f.scheduled_for, f.id, f.history_days) = (s.scheduled_for, s.fire_id, s.history_days) AND f.fence = s.fence
LEFT JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
ORDER BY s.number

-- name: void
-- Fires that wait, and whose slots others need: what may be in a queue of them is worthless from now on.
WITH held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days
    FROM unnest(
        %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[]
    ) AS r(id, scheduled_for, history_days, fence)
    JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days) AND f.fence = r.fence
    WHERE f.state IN ('parked', 'retry_wait')
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f SKIP LOCKED
)
UPDATE scheduling_fire f SET fence = f.fence + 1
FROM held h WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)
RETURNING f.id

-- name: take_slots
INSERT INTO scheduling_slot AS s (tenant_id, lane, task, number, fire_id, scheduled_for, history_days, fence, taken_at)
SELECT r.*, clock_timestamp()
FROM unnest(
    %(tenants)s::integer[], %(lanes)s::text[], %(tasks)s::text[], %(numbers)s::integer[],
    %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[]
) AS r
ON CONFLICT (tenant_id, lane, task, number) DO UPDATE
SET fire_id = excluded.fire_id, scheduled_for = excluded.scheduled_for, history_days = excluded.history_days, fence = excluded.fence,
    taken_at = excluded.taken_at

-- name: leave_slots
UPDATE scheduling_slot s
SET fire_id = NULL, scheduled_for = NULL, history_days = NULL, fence = 0, taken_at = NULL
FROM unnest(%(ids)s::uuid[], %(fences)s::integer[]) AS r(id, fence)
WHERE s.fire_id = r.id AND s.fence = r.fence
