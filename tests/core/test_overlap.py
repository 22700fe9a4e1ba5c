from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest

from scheduling.core.fire import Fire, Lane, OverlapPolicy, Work
from scheduling.core.identity import fire_id
from scheduling.core.overlap import RECHECK_S, Decision, Predecessors, asks_to_stop, decide, recheck_s

ALLOW, SKIP, BUFFER_ONE, BUFFER_ALL, CANCEL_RUNNING = OverlapPolicy
NINE = datetime(2026, 3, 9, 9, tzinfo=UTC)
WORK = Work(
    job_id=UUID(int=1), shard=1, tenant_id=1, tenant="acme", history_days=7, name="report", task="reports.make",
    lane=Lane.BULK, args="[]", kwargs="{}",
)  # fmt: skip


def a_fire(
    policy: OverlapPolicy, *, minute: int = 0, origin: str = "", attempt: int = 0, buffer_limit: int = 3
) -> Fire:
    at = NINE + timedelta(minutes=minute)
    work = replace(WORK, overlap=policy, buffer_limit=buffer_limit)
    return Fire(
        work=work, id=fire_id(work.job_id, at, origin), scheduled_for=at, fire_at=at, origin=origin, fence=1,
        attempt=attempt, epoch=1, seq=1,
    )  # fmt: skip


def ahead_of(fire: Fire, others: Sequence[Fire], running: Sequence[Fire] = ()) -> Predecessors:
    """Counts as the store does; ``others`` are unfinished and do not run."""
    before = [one for one in others if (one.scheduled_for, one.id) < (fire.scheduled_for, fire.id)]
    queued = [one for one in before if not one.origin and one.attempt == 0]
    return Predecessors(ahead=len(before) + len(running), queued=len(queued))


@pytest.mark.parametrize("policy", OverlapPolicy)
def test_with_nothing_ahead_every_policy_dispatches(policy: OverlapPolicy) -> None:
    assert decide(a_fire(policy), Predecessors(0, 0)) is Decision.DISPATCH


RUNNING, ON_ITS_WAY = Predecessors(ahead=1, queued=0), Predecessors(ahead=1, queued=1)


@pytest.mark.parametrize("one_ahead", [RUNNING, ON_ITS_WAY], ids=["running", "on its way to a worker"])
@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        (ALLOW, Decision.DISPATCH),
        (SKIP, Decision.SKIP_OVERLAP),
        (BUFFER_ONE, Decision.PARK),
        (BUFFER_ALL, Decision.PARK),
    ],
)
def test_with_one_ahead_the_policy_decides(policy: OverlapPolicy, one_ahead: Predecessors, decision: Decision) -> None:
    assert decide(a_fire(policy), one_ahead) is decision


def test_buffer_one_lets_a_single_fire_wait() -> None:
    assert decide(a_fire(BUFFER_ONE), Predecessors(ahead=2, queued=1)) is Decision.SKIP_BUFFER_FULL
    assert decide(a_fire(BUFFER_ONE), Predecessors(ahead=2, queued=2)) is Decision.SKIP_BUFFER_FULL


@pytest.mark.parametrize(("waiting", "decision"), [(2, Decision.PARK), (3, Decision.SKIP_BUFFER_FULL)])
def test_buffer_all_is_bounded_by_its_limit(waiting: int, decision: Decision) -> None:
    fire = a_fire(BUFFER_ALL, buffer_limit=3)
    assert decide(fire, Predecessors(ahead=waiting + 1, queued=waiting)) is decision


def test_several_that_run_take_no_place_in_the_buffer() -> None:
    assert decide(a_fire(BUFFER_ONE), Predecessors(ahead=5, queued=0)) is Decision.PARK


@pytest.mark.parametrize(("origin", "attempt"), [("manual:42", 0), ("backfill:7", 0), ("", 1), ("manual:42", 2)])
@pytest.mark.parametrize("policy", [SKIP, BUFFER_ONE, BUFFER_ALL])
def test_manual_fires_and_retries_wait_and_are_never_skipped(policy: OverlapPolicy, origin: str, attempt: int) -> None:
    fire = a_fire(policy, origin=origin, attempt=attempt)
    assert decide(fire, Predecessors(ahead=500, queued=499)) is Decision.PARK


def test_a_manual_fire_under_allow_does_not_wait() -> None:
    assert decide(a_fire(ALLOW, origin="manual:42"), RUNNING) is Decision.DISPATCH


def test_manual_fires_that_wait_do_not_fill_the_buffer_of_the_schedule() -> None:
    running = a_fire(BUFFER_ONE)
    manual = [a_fire(BUFFER_ONE, minute=1, origin=f"manual:{number}") for number in range(3)]
    own = a_fire(BUFFER_ONE, minute=2)
    assert decide(own, ahead_of(own, manual, [running])) is Decision.PARK


@pytest.mark.parametrize("policy", [SKIP, BUFFER_ONE, BUFFER_ALL])
@pytest.mark.parametrize("one_runs", [True, False])
def test_a_batch_is_judged_alike_in_any_order_and_the_earliest_keep_their_places(
    policy: OverlapPolicy, one_runs: bool
) -> None:
    running = [a_fire(policy, minute=-1)] if one_runs else []
    batch = [a_fire(policy, minute=minute, buffer_limit=2) for minute in range(4)]
    outcomes = set()
    for order in permutations(batch):
        unfinished, decided = list(batch), {}
        for fire in order:
            decided[fire.scheduled_for] = decide(fire, ahead_of(fire, unfinished, running))
        outcomes.add(tuple(decided[fire.scheduled_for] for fire in batch))
    places = {SKIP: 0, BUFFER_ONE: 1, BUFFER_ALL: 2}[policy]
    skip = Decision.SKIP_OVERLAP if policy is SKIP else Decision.SKIP_BUFFER_FULL
    first = [] if one_runs else [Decision.DISPATCH]
    waits = [Decision.PARK] * places
    assert outcomes == {tuple((first + waits + [skip] * 4)[:4])}


@pytest.mark.parametrize("policy", [BUFFER_ONE, BUFFER_ALL])
def test_a_parked_fire_that_comes_round_again_keeps_its_place(policy: OverlapPolicy) -> None:
    running = a_fire(policy)
    waits, later = a_fire(policy, minute=1, buffer_limit=1), a_fire(policy, minute=2, buffer_limit=1)
    assert decide(waits, ahead_of(waits, [], [running])) is Decision.PARK
    assert decide(later, ahead_of(later, [waits], [running])) is Decision.SKIP_BUFFER_FULL
    assert decide(waits, ahead_of(waits, [later], [running])) is Decision.PARK
    assert decide(waits, ahead_of(waits, [later])) is Decision.DISPATCH


def test_the_values_of_skips_are_the_recorded_reasons() -> None:
    assert (Decision.SKIP_OVERLAP.value, Decision.SKIP_BUFFER_FULL.value) == ("overlap", "buffer_full")


def test_what_was_asked_for_one_at_a_time_waits_though_its_job_lets_its_fires_overlap() -> None:
    asked = replace(a_fire(ALLOW, origin="backfill:7"), exclusive=True)
    assert decide(asked, RUNNING) is Decision.PARK
    assert decide(asked, Predecessors(0, 0)) is Decision.DISPATCH
    assert decide(replace(asked, exclusive=False), RUNNING) is Decision.DISPATCH


@pytest.mark.parametrize("attempt", [0, 1])
def test_the_schedules_own_fires_follow_the_policy_that_their_job_has_now(attempt: int) -> None:
    """The row may still say that it must not overlap: the policy was another when it was claimed."""
    assert decide(replace(a_fire(ALLOW, attempt=attempt), exclusive=True), RUNNING) is Decision.DISPATCH


def test_a_long_line_that_a_person_asked_for_is_looked_at_from_its_head() -> None:
    waits = [recheck_s(a_fire(BUFFER_ALL, origin="backfill:7"), Predecessors(ahead, 0)) for ahead in (1, 100, 10_000)]
    assert waits == [RECHECK_S, RECHECK_S * 100, RECHECK_S * 10_000]
    assert sum(1 / (RECHECK_S * ahead) for ahead in range(1, 10_001)) < 20  # looks in a second, all together
    assert recheck_s(a_fire(BUFFER_ALL), Predecessors(100, 100)) == RECHECK_S * 100


# -- cancel_running ----------------------------------------------------------------------------------------------------


def test_the_newest_waits_for_what_runs_and_asks_it_to_stop_once() -> None:
    newest = a_fire(CANCEL_RUNNING, minute=1)
    before = Predecessors(ahead=1, queued=0, begun=1)
    assert decide(newest, before) is Decision.PARK
    assert asks_to_stop(newest, before)
    asked = Predecessors(ahead=1, queued=0, begun=0)
    assert decide(newest, asked) is Decision.PARK
    assert not asks_to_stop(newest, asked)
    assert recheck_s(newest, Predecessors(ahead=5, queued=4)) == RECHECK_S, "it may begin only now"


def test_with_nothing_ahead_the_newest_runs() -> None:
    assert decide(a_fire(CANCEL_RUNNING), Predecessors(0, 0)) is Decision.DISPATCH


@pytest.mark.parametrize("ahead", [0, 1])
def test_one_behind_which_a_newer_one_waits_is_skipped_and_asks_nobody(ahead: int) -> None:
    older = a_fire(CANCEL_RUNNING)
    counted = Predecessors(ahead=ahead, queued=0, begun=ahead, newer=1)
    assert decide(older, counted) is Decision.SKIP_OVERLAP
    assert not asks_to_stop(older, counted)


@pytest.mark.parametrize("of", [{"origin": "manual:1"}, {"attempt": 1}])
def test_what_a_person_asked_for_and_retries_wait_and_make_nobody_stop(of: dict[str, Any]) -> None:
    fire = a_fire(CANCEL_RUNNING, **of)
    counted = Predecessors(ahead=1, queued=0, begun=1, newer=1)
    assert decide(fire, counted) is Decision.PARK
    assert not asks_to_stop(fire, counted)


@pytest.mark.parametrize("policy", [SKIP, BUFFER_ONE, BUFFER_ALL])
def test_no_other_policy_makes_anybody_stop(policy: OverlapPolicy) -> None:
    assert not asks_to_stop(a_fire(policy), Predecessors(ahead=1, queued=0, begun=1))
