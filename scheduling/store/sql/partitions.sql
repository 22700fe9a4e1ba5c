-- name: days
SELECT c.relname
FROM pg_inherits class_of
JOIN pg_inherits day_of ON day_of.inhparent = class_of.inhrelid
JOIN pg_class c ON c.oid = day_of.inhrelid
WHERE class_of.inhparent = 'scheduling_fire'::regclass
ORDER BY c.relname

-- name: unfinished
-- A fire that was claimed and confirmed a class's length ago was sent to a plain Celery task, or its message is gone.
SELECT FROM {table} f
JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
WHERE f.state IN ('parked', 'retry_wait', 'running')
   OR f.state = 'claimed' AND NOT f.confirmed AND ((f.seq_epoch, f.seq) > (p.seq_epoch, p.seq) OR f.seq IS NULL)
LIMIT 1

-- name: exists
-- to_regclass() would ask the session's cache of names, which need not know what another session has just committed.
SELECT 1 FROM pg_class WHERE relname = %s AND relnamespace = current_schema()::regnamespace
