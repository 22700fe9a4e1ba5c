-- What tenants may have: read whole when it has changed, which is asked each second.

-- name: changed
-- A number that moves with any of them. (A row that was only locked has not changed.)
SELECT (SELECT sum(hashtext(id::text || ' ' || xmin::text)::bigint) FROM fairness_tenant),
    (SELECT sum(hashtext(id::text || ' ' || xmin::text)::bigint) FROM fairness_limit),
    (SELECT sum(hashtext(name)::bigint) FROM scheduling_workertask WHERE is_guarded)

-- name: terms
SELECT id, slug, weight, transactional_weight, daily_fires, rate_per_s, burst, max_in_flight, is_strict FROM fairness_tenant

-- name: limits
SELECT tenant_id, lane, task, rate_per_s, burst, max_in_flight, is_strict FROM fairness_limit

-- name: guarded_tasks
SELECT name FROM scheduling_workertask WHERE is_guarded
