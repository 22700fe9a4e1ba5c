-- What is kept beside the ledger's days: leftovers.py.

-- name: waits
-- A dead letter about which nobody has decided.
EXISTS (SELECT FROM scheduling_deadletter d WHERE d.fire_id = s.fire_id AND d.redriven_at IS NULL)

-- name: steps_of_day
-- Of one partition's fires: the same day of another class has its own.
DELETE FROM scheduling_step WHERE id = ANY (ARRAY(
    SELECT s.id FROM scheduling_step s JOIN {table} f ON f.scheduled_for = s.scheduled_for AND f.id = s.fire_id
    WHERE s.scheduled_for >= %(day)s AND s.scheduled_for < %(next_day)s AND NOT {waits}
    LIMIT %(limit)s))

-- name: steps
-- Older than any day of the ledger, but where a late redrive has made the fire anew.
DELETE FROM scheduling_step WHERE id = ANY (ARRAY(
    SELECT s.id FROM scheduling_step s
    WHERE s.scheduled_for < %(before)s AND NOT {waits}
      AND NOT EXISTS (SELECT FROM scheduling_fire f WHERE f.scheduled_for = s.scheduled_for AND f.id = s.fire_id)
    ORDER BY s.scheduled_for LIMIT %(limit)s))

-- name: letters
-- What somebody holds just now, such as a redrive, is left to a later call.
DELETE FROM scheduling_deadletter WHERE id = ANY (ARRAY(
    SELECT d.id FROM scheduling_deadletter d
    WHERE d.died_at < clock_timestamp() - interval '1 day' AND CASE
        WHEN d.fire_id IS NULL THEN d.died_at < clock_timestamp() - %(foreign_days)s * interval '1 day'
        WHEN d.redriven_at IS NOT NULL THEN d.redriven_at < clock_timestamp() - d.history_days * interval '1 day'
        WHEN d.reason = 'cancelled' THEN d.died_at < clock_timestamp() - d.history_days * interval '1 day' AND NOT EXISTS (
            SELECT FROM scheduling_redrive r WHERE r.id = d.redrive_id AND r.stopped_at IS NULL AND r.finished_at IS NULL)
        ELSE false END
    ORDER BY d.died_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
