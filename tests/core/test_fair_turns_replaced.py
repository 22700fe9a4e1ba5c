"""A fire that is claimed anew while an older claim of it is still in our hands; and what we may have sent and lose."""

from __future__ import annotations

import pytest

from fairness.core.admission import CAP, Refusal
from fairness.core.terms import Bound
from scheduling.core.effects import Admit, Keep, LetGo, LookAtRuns, ReadDue, ReadWaiting, SendAgain
from scheduling.core.fire import Fire
from scheduling.core.turn import FairLimits
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_fire, make_work
from tests.engine_desk import of, one, published
from tests.fair_desk import TASK, FairDesk, terms

DEPTH = 4  # of two slots
CAPPED, RATED = Bound(max_in_flight=9), Bound(rate_per_s=9.0)


def claimed_anew(desk: FairDesk, *fires: Fire) -> list[Fire]:
    """Their jobs were edited, and the claim under the new schedule has taken their rows over."""
    return desk.claim(*(make_due(fire.work, fire.scheduled_for) for fire in fires), fence=2)


def is_settled(desk: FairDesk, shard: int = 1) -> bool:
    """Nothing holds the watermark."""
    mark = desk.engine._marks._marks[shard]
    return mark.mark + 1 == mark.allocate()


def test_an_older_claim_that_turns_up_late_does_not_end_the_turn_of_the_newer() -> None:
    desk = FairDesk(slots=2)
    went = desk.due(DEPTH)
    assert desk.go() == went
    desk.confirm(went)
    work = make_work(50)
    desk.claim(make_due(work, NOON, next_fire_at=NOON + SECOND / 2))
    (new,) = desk.claim(make_due(work, NOON), fence=2)  # its jitter is less
    assert desk.go(0.6) == []
    desk.end(went)
    assert desk.go() == [new]
    desk.confirm([new])
    desk.run(0.1)
    assert is_settled(desk)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
@pytest.mark.parametrize("bound", [None, RATED])
def test_of_two_claims_of_one_fire_that_come_due_together_the_newer_has_a_turn_and_the_older_none(
    bound: Bound | None, order: tuple[int, int]
) -> None:
    desk = FairDesk(terms(1, bound=bound), slots=2)
    work, at = make_work(50), NOON + SECOND / 2
    for fence in order:
        desk.claim(make_due(work, NOON, next_fire_at=at), fence=fence)
    for admit in of(Admit, desk.run(0.6)):
        desk.note(desk.engine.admitted(admit, [None] * len(admit.asked)))
    went = published(desk.effects)
    assert [fire.fence for fire in went] == [2]
    desk.confirm(went)
    desk.end(went)
    desk.run(0.1)
    assert (len(desk.turns), desk.turns.rooms["bulk"].in_flight) == (0, 0)
    assert [asking.asking for asking in desk.turns.terms.asking.values()] == [0] * (bound is not None)
    assert is_settled(desk)


def test_a_claim_that_replaces_what_waits_for_its_turn_leaves_no_hole_under_the_watermark() -> None:
    desk = FairDesk(slots=2)
    went, waits = desk.due(DEPTH), desk.due(1, first=50)
    assert desk.go() == went
    desk.confirm(went)
    (new,) = claimed_anew(desk, *waits)
    assert desk.go() == []
    desk.end(went)
    assert desk.go() == [new]
    desk.confirm([new])
    desk.run(0.1)
    assert is_settled(desk)


def test_a_claim_that_replaces_what_is_asked_for_leaves_no_hole_under_the_watermark() -> None:
    desk = FairDesk(terms(1, bound=CAPPED))
    fires = desk.due(1)
    admit = one(Admit, desk.run(0.01))
    (new,) = claimed_anew(desk, *fires)
    once_more = one(Admit, desk.run(0.01))
    assert published(desk.engine.admitted(admit, [None])) == []
    assert one(LetGo, desk.run(0.01)).unspent
    desk.note(desk.engine.admitted(once_more, [None]))
    assert published(desk.effects) == [new]
    desk.confirm([new])
    desk.run(0.1)
    assert is_settled(desk)


def sent_again(desk: FairDesk, fire: Fire) -> Fire:
    """Nobody has acquired it: another message of it, under the same fence."""
    copy = make_fire(fire.work, fire.scheduled_for, fence=fire.fence, seq=0)
    epochs = desk.engine._numbering.anew([copy])
    desk.note(desk.engine.sent_again(SendAgain(epochs, [copy]), {copy.id}))
    return copy


def test_what_is_seen_to_run_while_it_is_asked_for_once_more_leaves_no_hole_under_the_watermark() -> None:
    desk = FairDesk(slots=2)
    (fire,) = desk.due(1)
    desk.confirm(desk.go())
    desk.set_terms(terms(1, bound=RATED))
    copy = sent_again(desk, fire)
    admit = one(Admit, desk.effects_until(Admit))
    desk.end([copy])
    desk.note(desk.engine.admitted(admit, [None]))
    desk.confirm([copy])
    desk.end([copy])
    desk.run(0.1)
    assert is_settled(desk)
    assert len(desk.turns) == 0


def test_what_is_refused_when_it_is_sent_again_is_looked_at_no_more() -> None:
    desk = FairDesk(slots=2)
    (fire,) = desk.due(1)
    desk.confirm(desk.go())
    desk.set_terms(terms(1, bound=RATED))
    sent_again(desk, fire)
    admit = one(Admit, desk.effects_until(Admit))
    desk.engine.admitted(admit, [Refusal(CAP, (1, "", ""))])
    assert not any(look.fires for look in of(LookAtRuns, desk.run(0.5)))


def test_what_may_be_with_a_worker_keeps_its_place_when_its_shard_is_lost() -> None:
    """It has no confirm yet: a slot that were given back would let another run beside it."""
    desk = FairDesk(terms(1, bound=CAPPED))
    fires = desk.due(2)
    admit = one(Admit, desk.run(0.01))
    assert len(published(desk.engine.admitted(admit, [None, None]))) == 2
    desk.confirm(fires[:1])
    desk.engine.drop({1})
    assert of(LetGo, desk.run(0.01)) == []
    assert len(desk.turns) == 0


def test_where_every_fire_is_acquired_its_end_is_waited_for_whatever_its_task() -> None:
    desk = FairDesk(terms(1, bound=CAPPED), fairness=FairLimits(exchanges=False, bounds_lanes=False, follows_all=True))
    desk.set_terms(terms(1, bound=CAPPED), guarded=())
    fires = desk.due(1)
    desk.engine.admitted(one(Admit, desk.run(0.01)), [None])
    desk.confirm(fires)
    assert of(LetGo, desk.run(0.3)) == []
    desk.end(fires)
    assert one(LetGo, desk.run(0.01)).asked


def test_what_is_in_flight_counts_under_a_cap_that_is_new() -> None:
    desk = FairDesk(slots=2)
    went = desk.due(DEPTH + 1)[:DEPTH]
    assert desk.go() == went
    desk.confirm(went)
    desk.set_terms(terms(1, bound=CAPPED))
    assert [fire for fire, _ in one(Keep, desk.run(0.01)).asked] == went


# -- full ------------------------------------------------------------------------------------------------------------


def refuse(desk: FairDesk, key: tuple[int, str, str]) -> None:
    for admit in of(Admit, desk.run(0.01)):
        desk.engine.admitted(admit, [Refusal(CAP, key) for _ in admit.asked])


def next_read(desk: FairDesk) -> ReadDue:
    desk.run(0.1)
    desk.engine.look_now()
    return one(ReadDue, desk.effects_until(ReadDue))


def test_a_limit_of_one_task_does_not_make_its_tenant_full() -> None:
    desk = FairDesk(terms(1, bounds={("", TASK): CAPPED}))
    desk.due(20)
    refuse(desk, (1, "", TASK))
    assert next_read(desk).full == frozenset()


@pytest.mark.parametrize(("heads", "is_overfull"), [(5, False), (60, True)])
def test_what_waits_in_the_store_is_still_read_where_new_jobs_are_left(heads: int, is_overfull: bool) -> None:
    """Else the jobs of a flood would keep its own retries out."""
    desk = FairDesk(terms(1, bound=CAPPED))
    desk.due(heads)
    refuse(desk, (1, "", ""))
    assert next_read(desk).full == {1}
    desk.engine.waiting_read(Waiting([]))
    desk.engine.look_now()
    assert one(ReadWaiting, desk.effects_until(ReadWaiting)).full == ({1} if is_overfull else set())


def test_a_limit_of_one_lane_does_not_make_its_tenant_full_and_one_of_all_does() -> None:
    desk = FairDesk(terms(1, bounds={("bulk", ""): CAPPED, ("", ""): CAPPED}))
    desk.due(20)
    refuse(desk, (1, "bulk", ""))
    assert next_read(desk).full == frozenset()
    desk.set_terms(terms(1, bounds={("bulk", ""): CAPPED, ("", ""): Bound(max_in_flight=8)}))
    refuse(desk, (1, "", ""))
    assert next_read(desk).full == {1}
