-- name: members
SELECT id, weight, extract(epoch FROM lease_until - clock_timestamp())::float8
FROM scheduling_node WHERE lease_until > clock_timestamp()

-- name: living_owners
SELECT s.id, s.owner_id FROM scheduling_shard s JOIN scheduling_node n ON n.id = s.owner_id
WHERE n.lease_until > clock_timestamp()
