"""Which tenants are held, since when, and what of it is written."""

from __future__ import annotations

from math import inf

from scheduling.core.due import Due
from scheduling.core.effects import Hold, ReadDue
from scheduling.core.fire import MisfirePolicy
from scheduling.core.holds import WRITE_S, Holds
from scheduling.core.standings import LEAST
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_work
from tests.engine_desk import of, one
from tests.fair_desk import FairDesk

SHARDS = frozenset({1, 3})
EPOCHS = {1: 5, 3: 6}


def look(full: set[int] | None = None) -> ReadDue:
    return ReadDue(SHARDS, NOON, 10, frozenset(full or ()))


def held() -> Holds:
    """Tenant 7, since noon, which is written."""
    holds = Holds()
    holds.begin({7}, SHARDS, 0.0, NOON)
    holds.write(WRITE_S, EPOCHS)
    holds.written()
    return holds


def test_who_is_left_out_is_held_since_the_first_time() -> None:
    holds = Holds()
    holds.begin({7}, SHARDS, 0.0, NOON)
    holds.begin({7}, SHARDS, 0.5, NOON + SECOND)
    assert holds.since == {(7, 1): NOON, (7, 3): NOON}


def test_a_hold_is_written_once_it_has_lasted_a_second() -> None:
    holds = Holds()
    holds.begin({7}, SHARDS, 0.0, NOON)
    assert holds.write(0.9, EPOCHS) == []
    assert holds.next_at() == WRITE_S
    assert holds.write(1.0, EPOCHS) == [Hold(EPOCHS, {(7, 1): NOON, (7, 3): NOON}, [])]
    assert holds.write(9.0, EPOCHS) == []


def test_it_is_over_once_a_look_has_left_nothing_behind_and_its_claim_is_written() -> None:
    holds = held()
    holds.looked(look(), Due((), SHARDS), [])
    assert holds.since
    holds.claimed(SHARDS)
    assert holds.since == {}
    (written,) = holds.write(2.0, EPOCHS)
    assert (written.begun, sorted(written.ended)) == ({}, [(7, 1), (7, 3)])


def test_it_is_not_over_where_more_is_due_or_the_look_left_it_out_or_its_claim_failed() -> None:
    holds = held()
    holds.looked(look({7}), Due((), SHARDS), [])
    holds.claimed(SHARDS)
    holds.looked(look(), Due((), frozenset({1}), frozenset({(7, 1)})), [])
    holds.claimed(SHARDS)
    holds.looked(look(), Due((), SHARDS), [(7, 1), (7, 3)])
    holds.claimed(SHARDS)
    holds.looked(look(), Due((), SHARDS), [])
    holds.not_claimed(SHARDS)
    holds.claimed(SHARDS)
    assert len(holds.since) == 2


def test_what_lasts_less_than_a_second_is_never_written() -> None:
    holds = Holds()
    holds.begin({7}, SHARDS, 0.0, NOON)
    holds.looked(look(), Due((), SHARDS), [])
    holds.claimed(SHARDS)
    assert holds.write(5.0, EPOCHS) == []


def test_what_could_not_be_written_is_written_again() -> None:
    holds = Holds()
    holds.begin({7}, {1}, 0.0, NOON)
    (failed,) = holds.write(1.0, EPOCHS)
    holds.not_written(failed, 1.0)
    assert holds.write(1.5, EPOCHS) == []
    assert holds.write(2.0, EPOCHS) == [failed]


def test_of_a_shard_that_is_gone_nothing_is_written() -> None:
    holds = held()
    holds.drop({1})
    holds.looked(look(), Due((), SHARDS), [])
    holds.claimed(SHARDS)
    (written,) = holds.write(2.0, EPOCHS)
    assert written.ended == [(7, 3)]


def test_what_could_not_be_written_of_a_shard_that_is_gone_wakes_nobody() -> None:
    holds = Holds()
    holds.begin({7}, SHARDS, 0.0, NOON)
    (failed,) = holds.write(1.0, EPOCHS)
    holds.drop(SHARDS)
    holds.not_written(failed, 1.0)
    holds.write(2.0, {})
    assert holds.next_at() == inf


def test_what_another_owner_wrote_is_known_and_ended() -> None:
    holds = Holds()
    holds.known({(7, 1): NOON})
    assert holds.write(9.0, EPOCHS) == []
    holds.looked(look(), Due((), SHARDS), [])
    holds.claimed(SHARDS)
    (written,) = holds.write(9.0, EPOCHS)
    assert written.ended == [(7, 1)]


def test_a_clock_that_is_set_back_leaves_nobody_held_from_a_time_that_is_yet_to_come() -> None:
    """What comes due until then would be late by the hold, and be called a misfire."""
    holds = held()
    holds.begin({7}, SHARDS, 5.0, NOON - 60 * SECOND)
    assert holds.since == {(7, 1): NOON - 60 * SECOND, (7, 3): NOON - 60 * SECOND}
    (written,) = holds.write(6.0, EPOCHS)
    assert written.begun == holds.since


def test_nor_does_the_next_owner_have_any_after_that() -> None:
    holds = Holds()
    holds.known({(7, 1): NOON})
    holds.begin({7}, SHARDS, 5.0, NOON - 60 * SECOND)
    assert holds.since[7, 1] == NOON - 60 * SECOND


def test_a_clock_that_was_read_anew_changes_no_hold() -> None:
    holds = held()
    holds.begin({7}, SHARDS, 5.0, NOON - SECOND / 2)
    assert holds.since[7, 1] == NOON
    assert holds.write(9.0, EPOCHS) == []


def test_what_is_read_of_another_owner_is_not_ended_by_what_was_not_written_before() -> None:
    holds = Holds()
    holds.begin({7}, SHARDS, 0.0, NOON)
    (failed,) = holds.write(1.0, EPOCHS)
    holds.drop(SHARDS)
    holds.not_written(failed, 1.0)
    holds.known({(7, 1): NOON})
    assert holds.write(9.0, {1: 7}) == []


def test_a_flood_is_held_and_no_misfire_and_the_hold_ends_with_it() -> None:
    """From the engine: left out, held, written; once all is claimed, over."""
    desk = FairDesk(slots=2)
    desk.due(20)
    desk.confirm(desk.go())
    hold = one(Hold, desk.effects_until(Hold, most_s=3.0))
    assert hold.begun.keys() == {(1, 1)}
    desk.engine.holds_written()
    for fire in list(desk.turns._turns.values()):
        desk.turns._end(fire, desk.clock.monotonic())
    late = make_due(make_work(99, misfire_grace_s=0.1, misfire=MisfirePolicy.SKIP), hold.begun[1, 1])
    desk.clock.advance(1.0)
    desk.engine.look_now()
    (claim,) = desk.planned([late])
    assert [row.state for plan in claim.plans for row in plan.rows] == ["claimed"]
    desk.engine.claimed(claim, {row.fire.id: 1 for plan in claim.plans for row in plan.rows})
    assert one(Hold, desk.effects_until(Hold)).ended == [(1, 1)]


def test_of_whom_something_waits_a_look_takes_no_more_than_a_second_of_it() -> None:
    """From the engine: the others may have all that a look has room for, and who is full has nothing."""
    desk = FairDesk(slots=2)
    desk.due(20, tenant=1)
    desk.due(LEAST - 1, tenant=2)
    desk.go()
    desk.clock.advance(1.0)
    (read,) = of(ReadDue, desk.pass_time())
    assert read.full == {1}
    assert read.most == {2: LEAST}
