-- name: live_nodes
SELECT id FROM scheduling_node WHERE lease_until > clock_timestamp()

-- name: worker_reports
-- Those of workers that are gone, too: a node that starts while all are down has to know how many there were.
SELECT slots, busy, waiting, idle_s, interval_s, ran, ran_s, extract(epoch FROM clock_timestamp() - seen_at)::float8, is_leaving
FROM fairness_workerreport WHERE seen_at > clock_timestamp() - interval '1 day'
