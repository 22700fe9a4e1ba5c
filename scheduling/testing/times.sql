-- Job time as the test sets it, and real time that keeps step with it. What was done is moved into the past while the
-- clock moves forward: so leases run out, and patience ends, by the database's own clock.

-- name: century
interval '3155760000 seconds'

-- name: stood_at
-- The real instant at which job time was last set. The lapse began a century before, and ended right then: so that a real instant of the
-- past is an instant of job time, too.
(c.real_origin + {century})

-- name: aged
(clock_timestamp() - {stood_at} - %(by)s::interval)

-- name: age
-- Time has passed since job time was last set, and not the while that the test took. Unfinished fires, and what a pause has taken and may
-- bring back.
UPDATE scheduling_fire SET claimed_at = claimed_at + {aged}, claimed_until = claimed_until + {aged}, started_at = started_at + {aged},
    lease_until = lease_until + {aged}, sent_again_at = sent_again_at + {aged}, finished_at = finished_at + {aged}
FROM scheduling_jobclock c
WHERE state IN ('claimed', 'parked', 'retry_wait', 'running') OR state = 'skipped' AND reason = 'paused'

-- name: age_redrives
UPDATE scheduling_redrive SET asked_at = asked_at + {aged} FROM scheduling_jobclock c WHERE stopped_at IS NULL AND finished_at IS NULL

-- name: stand
INSERT INTO scheduling_jobclock (id, job_origin, real_origin, speed, stops_after_s)
VALUES (1, %(now)s::timestamptz - {century}, clock_timestamp() - {century}, 1, extract(epoch FROM {century}))
ON CONFLICT (id) DO UPDATE SET job_origin = excluded.job_origin, real_origin = excluded.real_origin, speed = excluded.speed,
    stops_after_s = excluded.stops_after_s

-- name: move
WITH aged AS ({age}), aged_redrives AS ({age_redrives})
{stand}

-- name: due
-- Whether something is due by now, and when the next comes due that is not (null: nothing ever does). Job time.
SELECT coalesce(bool_or(at <= %(now)s), false), min(at) FILTER (WHERE at > %(now)s) FROM (
    SELECT next_fire_at FROM scheduling_job WHERE next_fire_at IS NOT NULL
    UNION ALL SELECT paused_until FROM scheduling_job WHERE paused_until IS NOT NULL AND deleted_at IS NULL
    UNION ALL SELECT CASE state
        WHEN 'running' THEN %(now)s::timestamptz + (lease_until - {stood_at}) + interval '1 ms'
        ELSE wake_at END
    FROM scheduling_fire f, scheduling_jobclock c WHERE state IN ('parked', 'retry_wait', 'running')
      AND NOT (state = 'parked' AND reason = 'overlap' AND wake_at > %(now)s AND EXISTS (  -- its end will tell; no need to look twice a second
          SELECT FROM scheduling_fire r WHERE r.job_id = f.job_id AND r.state = 'running'))
    UNION ALL SELECT %(now)s::timestamptz + interval '1 s' FROM scheduling_redrive WHERE stopped_at IS NULL AND finished_at IS NULL
) AS moments(at)

-- name: forget
DELETE FROM scheduling_jobclock
