"""The engine leaves room for first attempts, however many retries are due; the newest asks what runs to stop."""

from __future__ import annotations

from scheduling.core.effects import CancelRunning, CountPredecessors, Publish, ReadDue, Release, Settle, TakeAgain
from scheduling.core.fire import Fire, OverlapPolicy, Verdict
from scheduling.core.overlap import Predecessors
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_fire, make_work
from tests.engine_desk import Desk, of, one, published

BACKLOG = 10


def retries(count: int, *, attempt: int = 1, tenant: int = 1) -> list[Fire]:
    work = make_work(tenant, tenant_id=tenant)
    return [
        make_fire(work, NOON - SECOND * n, seq=0, epoch=0, attempt=attempt, fence=2, claimed_at=0.0)
        for n in range(1, count + 1)
    ]


def released(desk: Desk, fires: list[Fire]) -> list[Fire]:
    """Those of the fires that were read which the engine has published."""
    for release in of(Release, desk.note(desk.engine.waiting_read(Waiting(fires)))):
        desk.note(desk.engine.released(release, {fire.id for fire in release.fires}))
    return published(desk.run(0.01))


def test_retries_take_at_most_half_of_what_may_be_in_flight() -> None:
    desk = Desk(backlog=BACKLOG)
    sent = released(desk, retries(20))
    assert len(sent) == BACKLOG // 2
    assert released(desk, retries(20)[5:]) == []
    desk.outcome(Verdict.CONFIRMED, sent[0])
    assert len(released(desk, retries(20)[5:])) == 1


def test_beside_a_mass_of_retries_what_is_due_is_still_claimed_and_published() -> None:
    desk = Desk(backlog=BACKLOG)
    released(desk, retries(100))
    assert of(ReadDue, desk.run(0.2)), "it still looks for what is due"
    (fire,) = desk.claim(make_due(make_work(7), NOON))
    assert published(desk.run(0.01)) == [fire]


def test_first_attempts_that_wait_are_not_bounded() -> None:
    assert len(released(Desk(backlog=BACKLOG), retries(20, attempt=0))) == 20


def test_where_a_tenants_queue_is_full_his_retries_stay_where_they_are_and_no_other_tenants() -> None:
    desk = Desk()
    (fire,) = desk.claim(make_due(make_work(1), NOON))
    desk.run(0.01)
    desk.outcome(Verdict.NACKED, fire)
    his, others = retries(2), retries(2, tenant=2)
    assert one(Release, desk.engine.waiting_read(Waiting([*his, *others]))).fires == others
    desk.run(0.2)
    assert one(Release, desk.engine.waiting_read(Waiting(his))).fires == his, "the gate is open again"


# -- cancel_running ----------------------------------------------------------------------------------------------------


def test_the_newest_is_parked_and_what_has_begun_before_it_is_asked_to_stop() -> None:
    desk = Desk()
    (fire,) = desk.claim(make_due(make_work(1, overlap=OverlapPolicy.CANCEL_RUNNING), NOON))
    count = one(CountPredecessors, desk.run(0.01))
    answer = desk.engine.predecessors_counted(count, {fire.id: Predecessors(1, 0, begun=1)})
    assert [type(effect) for effect in answer] == [Settle, CancelRunning]
    cancel = one(CancelRunning, answer)
    assert (cancel.newest, dict(cancel.epochs)) == ([fire], {1: 1})
    assert of(Publish, answer) == []
    assert of(TakeAgain, desk.engine.failed(cancel)) == [], "whoever is parked looks again"
