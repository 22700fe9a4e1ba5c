"""What is due and left where it is for want of workers is not late by that."""

from __future__ import annotations

from scheduling.core.due import Due, DueJob
from scheduling.core.effects import Claim, ReadDue
from scheduling.core.fire import MisfirePolicy
from scheduling.core.shortage import LASTS_S, Shortage
from scheduling.testing.clock import NOON
from tests.claims import SECOND, every, make_due, make_work
from tests.engine_desk import of, one
from tests.fair_desk import FairDesk

SHARDS = frozenset({1, 3})
READ = ReadDue(SHARDS, NOON, 10)
JOB = make_due(make_work(5, tenant_id=7))


def seen(*more: tuple[int, int]) -> Due:
    return Due((), SHARDS, frozenset(more))


def test_it_lasts_from_the_first_look_that_left_something_for_as_long_as_others_do() -> None:
    shortage = Shortage()
    shortage.looked(READ, seen((7, 1)), (), 0.0, NOON)
    shortage.looked(READ, seen(), [(8, 1)], LASTS_S, NOON + 10 * SECOND)
    assert shortage.since(1, 2 * LASTS_S) == NOON
    assert shortage.since(3, 0.0) is None, "nothing was left there"
    assert shortage.since(1, 2 * LASTS_S + 1) is None, "nothing was left of late"


def test_a_shard_that_was_not_looked_at_to_its_end_is_short() -> None:
    shortage = Shortage()
    shortage.looked(READ, Due((), frozenset({1})), (), 0.0, NOON)
    assert (shortage.since(1, 0.0), shortage.since(3, 0.0)) == (None, NOON)


def test_of_a_hold_and_a_shortage_the_earlier_counts() -> None:
    shortage = Shortage()
    shortage.looked(READ, seen((7, 1)), (), 0.0, NOON)
    assert shortage.held({}, [JOB], 1.0) == {(7, 1): NOON}
    assert shortage.held({(7, 1): NOON - SECOND}, [JOB], 1.0) == {(7, 1): NOON - SECOND}
    assert shortage.held({}, [JOB], 99.0) == {}


def look(desk: FairDesk, job: DueJob, *more: tuple[int, int]) -> Claim:
    desk.engine.look_now()
    (read,) = of(ReadDue, desk.pass_time())
    (claim,) = of(Claim, desk.engine.due_read(read, Due([job], read.shards, frozenset(more))))
    desk.engine.claimed(claim, {row.fire.id: 1 for plan in claim.plans for row in plan.rows})
    return claim


def late_by_40s(*, slots: int | None) -> list[tuple[str, str]]:
    """Of a job each ten seconds that is read 40 s late, while looks leave more than they find; what becomes of it."""
    desk = FairDesk(slots=slots)
    desk.due(20)
    desk.confirm(desk.go())
    for n in range(9):
        desk.engine.look_now()
        (read,) = of(ReadDue, desk.pass_time(5.0))
        (claim,) = of(
            Claim,
            desk.engine.due_read(
                read,
                Due([make_due(make_work(500 + n, tenant_id=3), desk.clock.now())], read.shards, frozenset({(2, 1)})),
            ),
        )
        desk.engine.claimed(claim, {row.fire.id: 1 for plan in claim.plans for row in plan.rows})
    work = make_work(99, tenant_id=2, misfire=MisfirePolicy.LATEST, misfire_grace_s=10.0)
    at = desk.clock.now() - 40 * SECOND
    claim = look(desk, make_due(work, at, schedule=every(10.0, anchor=at), next_fire_at=at))
    return [(row.state.value, row.reason) for row in one(Claim, [claim]).plans[0].rows]


def test_for_want_of_workers_a_late_recurrence_is_throttled_and_no_misfire() -> None:
    rows = late_by_40s(slots=2)
    assert {reason for state, reason in rows if state == "skipped"} == {"throttled"}


def test_where_workers_have_room_it_is_a_misfire() -> None:
    rows = late_by_40s(slots=None)
    assert {reason for state, reason in rows if state == "skipped"} == {"coalesced"}
