"""What must hold of the rows after any two actors, and when their shard has come to rest."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from scheduling.core.effects import ReadDue
from scheduling.core.fire import UNFINISHED
from scheduling.core.planning import plan_jobs
from scheduling.models import Fire
from scheduling.store.ledger_port import Refused
from scheduling.store.postgres import PostgresStore
from scheduling.testing.clock import NOON
from tests.claims import job_id
from tests.fires import delivery_of
from tests.store.pair_actors import ledger
from tests.store.pair_stage import Stage, Write
from tests.store.pair_world import CLOCK, SHARD, Kind, World, at

# I3 and the states of the protocol. A fence never falls; a run begins under the fence that was claimed.
LEGAL = {
    "": "claimed retry_wait skipped",
    "claimed": "claimed parked retry_wait running skipped dead",
    "parked": "parked claimed skipped dead",
    "retry_wait": "claimed skipped dead",
    "running": "running succeeded retry_wait dead",
    "skipped": "retry_wait claimed skipped",
    "dead": "retry_wait",
    "succeeded": "",
}
RAISES_FENCE = {("running", "retry_wait"), ("skipped", "retry_wait"), ("skipped", "claimed")}


def is_legal(write: Write) -> bool:
    """Of a fire."""
    old, new = write.old, write.new
    before = old.get("state", "")
    if new["state"] not in LEGAL[before].split() or new["fence"] < old.get("fence", 1):
        return False
    if before == "claimed" and new["state"] == "running":
        return (new["fence"], new["attempt"]) == (old["fence"], old["attempt"] + 1)
    if (before, new["state"]) == ("running", "running"):
        return (new["fence"], new["holder"]) == (old["fence"], old["holder"])
    return (before, new["state"]) not in RAISES_FENCE or new["fence"] == old["fence"] + 1


# I1, I4: one row for each. I2: one completion, and effects only with one. The watermark.
BROKEN = """
SELECT 'rows of one occurrence: ' || count(*) || ' at ' || scheduled_for FROM scheduling_fire
GROUP BY job_id, scheduled_for, origin HAVING count(*) > 1
UNION ALL
SELECT 'successes of one fire: ' || count(*) FROM scheduling_jobrun WHERE state = 'succeeded'
GROUP BY fire_id HAVING count(*) > 1
UNION ALL
SELECT 'an effect without its completion, or two' FROM pair_effect e
LEFT JOIN scheduling_jobrun r ON r.holder = e.holder AND r.state = 'succeeded'
GROUP BY e.holder HAVING count(*) <> 1 OR count(r.id) <> 1
UNION ALL
SELECT 'dead, and without its dead letter: ' || f.reason FROM scheduling_fire f
LEFT JOIN scheduling_deadletter d ON (d.fire_id, d.fence, d.reason) = (f.id, f.fence, f.reason)
WHERE f.state = 'dead' AND d.id IS NULL
UNION ALL
SELECT 'the watermark has passed number ' || f.seq FROM scheduling_fire f
JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
WHERE f.state = 'claimed' AND (f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq)
  AND NOT (f.seq_epoch = 1 AND f.seq IN (1, 2) AND f.fence = 1)  -- these are confirmed
UNION ALL
SELECT 'a number of an epoch that has not begun' FROM scheduling_fire f
JOIN scheduling_shard s ON s.id = f.shard_id WHERE f.seq_epoch > s.epoch
"""

# One chain of entries: a live job has one, unless it is in its row or to be planned anew.
CHAIN = """
SELECT 'entries of the present version: ' || count(e.job_id) || ', in_bucket ' || j.in_bucket FROM scheduling_job j
LEFT JOIN scheduling_entry e ON e.job_id = j.id AND e.schedule_version = j.schedule_version
WHERE j.deleted_at IS NULL AND NOT (j.in_bucket AND j.next_fire_at IS NOT NULL)
GROUP BY j.id HAVING count(e.job_id) <> j.in_bucket::integer
"""

# I5, I7: nothing waits that might go on.
WAITS = f"""
SELECT f.state || ' ' || f.reason || ' is left at ' || f.scheduled_for FROM scheduling_fire f
JOIN scheduling_job j ON j.id = f.job_id
WHERE f.state = 'claimed'
   OR f.state IN ('parked', 'retry_wait') AND f.wake_at <= '{NOON}' AND (j.paused_at IS NULL OR f.origin <> '')
   OR f.state = 'running' AND f.lease_until < clock_timestamp()
UNION ALL
SELECT 'a pause that is over has not ended' FROM scheduling_job WHERE paused_until <= '{NOON}' AND deleted_at IS NULL
"""
# I1: whatever was due has its row, by the schedule that held until noon.
LOST = f"""
SELECT 'lost: ' || due.at FROM scheduling_job j
CROSS JOIN generate_series(
    CASE j.id WHEN '{job_id(1)}' THEN timestamptz '{at(-8)}' ELSE '{at(-3)}' END, '{NOON}', interval '1 minute'
) AS due(at)
WHERE j.deleted_at IS NULL AND NOT EXISTS (
    SELECT FROM scheduling_fire f WHERE f.job_id = j.id AND f.scheduled_for = due.at AND f.origin = '')
"""


def broken(world: World, stage: Stage, writes: Iterable[Write]) -> list[str]:
    illegal = [f"{w.seat}: {w.old} became {w.new}" for w in writes if w.table == "fire" and w.new and not is_legal(w)]
    query = BROKEN + "UNION ALL" + CHAIN if world.kind.is_bucketed else BROKEN
    return illegal + [text for (text,) in stage.session.execute(query.encode()).fetchall()]


def vanished(writes: Iterable[Write]) -> list[str]:
    """Fires that somebody left unfinished, and whose rows are gone: nothing drops these."""
    last = {write.id: write.new["state"] for write in writes if write.table == "fire" and write.new}
    unfinished = [fire for fire, state in last.items() if state in UNFINISHED]
    there = set(Fire.objects.filter(id__in=unfinished).order_by().values_list("id", flat=True)) if unfinished else set()
    return [f"{fire} was left {last[fire]}, and is gone" for fire in unfinished if fire not in there]


def left_at_rest(world: World, stage: Stage) -> list[str]:
    """After another node has taken the shard over, and its workers have run whatever they may."""
    is_whole = world.kind not in (Kind.FINISHED, Kind.CROSSED)  # of the others not all has, or keeps, its history
    query = (WAITS + "UNION ALL" + LOST if is_whole else WAITS).encode()
    store = world.store(stage.owner)
    epochs, _ = store.take_over([SHARD], "node-1")
    for _ in range(3):
        look(store, epochs[SHARD])
        run_what_is_claimed(stage)
        left = [text for (text,) in stage.session.execute(query).fetchall()]
        if not left:
            return broken(world, stage, [])
    return left


def look(store: PostgresStore, epoch: int) -> None:
    """Everything that an owner does, once."""
    epochs, seq = {SHARD: epoch}, count(1000)
    due = store.due(ReadDue(frozenset({SHARD}), NOON, 100)).jobs
    store.claim(epochs, plan_jobs(due, until=NOON, clock=CLOCK, number=lambda _: (epoch, next(seq)), room=100))
    store.reap(epochs, now=NOON)
    waiting = store.waiting([SHARD], now=NOON, limit=100).fires
    for fire in waiting:
        fire.epoch, fire.seq = epoch, next(seq)
    store.release(epochs, waiting)


def run_what_is_claimed(stage: Stage) -> None:
    """Of jobs as they were. Of those that were paused or deleted each message is refused, but what a person asked for
    (I9).
    """
    changed = Fire.objects.filter(state="claimed").exclude(job__paused_at=None, job__deleted_at=None)
    for fire in changed.select_related("job").order_by():
        answer = ledger().acquire(delivery_of(fire))
        may_run = fire.origin != "" or fire.job.paused_at is None or fire.job.paused_until is not None
        assert isinstance(answer, Refused) or (may_run and fire.job.deleted_at is None), f"{fire} starts"
    stage.session.execute(RUN)


RUN = "UPDATE scheduling_fire SET state = 'succeeded', attempt = attempt + 1 WHERE state = 'claimed'"
