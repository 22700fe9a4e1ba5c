"""Why is it waiting: exactly one reason, whatever is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from fairness.core.terms import Bound
from fairness.explain import Gate, Pace, Place
from scheduling.core.clock import TimeLapse
from scheduling.core.fire import State
from scheduling.core.why import (
    Consumers,
    DueFacts,
    Explained,
    FireFacts,
    Moment,
    Owner,
    Pause,
    TenantLine,
    Why,
    why_due,
    why_fire,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
NOW = Moment(real=NOON, job=NOON)
MINUTE = timedelta(minutes=1)
LIVES, GONE, NOBODY = Owner(node="n1", lives=True), Owner(node="n1", lives=False), Owner(node="", lives=False)
PAUSE = Pause(by="ada", reason="audit", until=NOON + MINUTE)
GATES = (
    Gate(reason="budget", until=NOON + 60 * MINUTE, daily=10),
    Gate(reason="cap", bound=Bound(max_in_flight=1), holders=1, held_by=("fire 1",)),
    Gate(reason="rate", bound=Bound(rate_per_s=5)),
)


def line(holds_up: str | None = None, *, ahead: int = 3, gates: tuple[Gate, ...] = GATES, **more: Any) -> TenantLine:
    pace = Pace(starts_per_s=1)
    return TenantLine(
        tenant="acme", lane="bulk", place=Place(ahead=ahead), pace=pace, gates=gates, holds_up=holds_up, **more
    )


def fire(state: State = State.CLAIMED, reason: str = "", **more: Any) -> Explained:
    values: dict[str, Any] = {
        "fire_at": NOON - MINUTE,
        "wake_at": NOON + timedelta(seconds=20) if state in (State.PARKED, State.RETRY_WAIT) else None,
        "origin": "",
        "attempt": 0,
        "max_attempts": 3,
        "is_published": False,
        "is_redriven": False,
        "is_guarded": True,
        "owner": LIVES,
        "line": line(),
        "consumers": Consumers(workers=2),
    }
    return why_fire(FireFacts(id=uuid4(), state=state, reason=reason, **values | more), NOW)


def due(**more: Any) -> Explained:
    values: dict[str, Any] = {
        "fire_at": NOON - timedelta(seconds=2),
        "grace_s": 30.0,
        "misfire": "latest",
        "is_excluded": False,
        "problem": "",
        "owner": LIVES,
        "line": line(),
    }
    return why_due(DueFacts(**values | more), NOW)


@pytest.mark.parametrize("reason", ["rate", "cap", "budget"])
def test_a_fire_that_is_parked_for_a_limit_waits_for_it(reason: str):
    found = fire(State.PARKED, reason)
    assert found.why == reason
    assert found.ahead == 3
    assert found.expected_at is not None


def test_tokens_are_back_when_a_node_says_so_and_by_the_rate_where_none_does():
    assert fire(State.PARKED, "rate", line=line(ahead=10)).until == NOON + timedelta(seconds=2)
    known = Gate(reason="rate", bound=Bound(rate_per_s=5), until=NOON + timedelta(seconds=4))
    assert fire(State.PARKED, "rate", line=line("rate", gates=(known,))).until == NOON + timedelta(seconds=4.6)


def test_the_holders_of_a_cap_are_named():
    assert fire(State.PARKED, "cap").holders == ("fire 1",)


def test_a_limit_that_was_lifted_meanwhile_leaves_the_share():
    assert fire(State.PARKED, "rate", line=line("", gates=())).why is Why.SHARE


def test_what_is_claimed_waits_for_what_its_node_says_of_the_tenant():
    assert fire(line=line("rate")).why is Why.RATE
    assert fire(line=line("")).why is Why.SHARE
    assert fire(line=line(None)).why is Why.SENDING


@pytest.mark.parametrize("reason", ["rate", "cap", "budget"])
def test_what_was_parked_for_its_share_waits_for_the_limit_that_holds_its_tenant_now(reason: str):
    assert fire(State.PARKED, "share", line=line(reason)).why == reason
    assert fire(State.PARKED, "share", line=line(reason, gates=())).why is Why.SHARE  # it is another task's


def test_what_waits_for_its_share_has_a_start_after_all_that_go_before_it():
    found = fire(State.PARKED, "share", line=line("", ahead=99))
    assert (found.why, found.ahead, found.expected_at) == (Why.SHARE, 99, NOON + timedelta(seconds=99.5))


def test_a_pause_comes_before_every_other_reason_and_holds_nothing_that_a_person_asked_for():
    assert fire(State.PARKED, "rate", pause=PAUSE).why is Why.PAUSED
    assert fire(State.RETRY_WAIT, "failed", pause=PAUSE).until == NOON + MINUTE
    assert fire(State.PARKED, "rate", pause=PAUSE, origin="manual:1").why is Why.RATE
    assert fire(State.RETRY_WAIT, "redriven", pause=PAUSE, is_redriven=True).why is Why.RETRY
    assert "paused by ada until 2026-03-02 12:01:00 UTC: audit" in due(pause=PAUSE).words


def test_a_shard_without_a_living_owner_is_the_reason_once_no_time_is_left_to_wait_for():
    for owner in (GONE, NOBODY):
        assert fire(owner=owner).why is Why.SHARD
        assert fire(State.PARKED, "share", owner=owner).why is Why.SHARD
        assert fire(State.PARKED, "rate", owner=owner, wake_at=NOON - MINUTE).why is Why.SHARD
        assert fire(State.PARKED, "rate", owner=owner).why is Why.RATE
        assert fire(State.RETRY_WAIT, "failed", owner=owner).why is Why.RETRY
        assert due(owner=owner).why is Why.SHARD
    assert "n1 owns its shard, and its lease is out" in fire(owner=GONE).words
    assert "no node lives" in fire(owner=Owner(node="", lives=False, is_any=True)).words


def test_between_attempts_it_waits_for_its_backoff_and_then_for_its_turn():
    found = fire(State.RETRY_WAIT, "failed", attempt=1)
    assert (found.why, found.until) == (Why.RETRY, NOON + timedelta(seconds=20))
    assert found.words.startswith("attempt 1 of 3 has ended (failed); the next begins at 2026-03-02 12:00:20 UTC")
    assert fire(State.RETRY_WAIT, "failed", wake_at=NOON - MINUTE).why is Why.CLAIM
    assert fire(State.RETRY_WAIT, "failed", wake_at=NOON - MINUTE, line=line("")).why is Why.SHARE


def test_what_may_not_overlap_names_what_is_before_it():
    found = fire(State.PARKED, "overlap", ahead_of_job=("a", "b"))
    assert (found.why, found.ahead, found.holders) == (Why.OVERLAP, 2, ("a", "b"))
    assert fire(State.PARKED, "overlap").why is Why.CLAIM


def test_back_pressure_of_the_broker_is_a_reason():
    assert fire(State.PARKED, "turn").why is Why.TURN


def test_what_the_broker_has_waits_for_a_worker_if_there_is_one():
    assert fire(is_published=True).why is Why.QUEUE
    assert fire(is_published=True, consumers=Consumers(workers=None)).why is Why.QUEUE
    assert fire(is_published=True, consumers=Consumers(workers=0)).why is Why.NO_WORKER
    assert fire(is_published=True, consumers=Consumers(workers=2, in_use=False)).why is Why.NO_WORKER
    assert fire(is_published=True, is_guarded=False).why is Why.SENT


def test_what_is_not_due_what_runs_and_what_is_over_says_so():
    assert fire(fire_at=NOON + MINUTE).why is Why.NOT_DUE
    running = fire(State.RUNNING, started_at=NOON, attempt=1, cancel_reason="enough")
    assert running.why is Why.RUNNING
    assert running.words == "runs since 2026-03-02 12:00:00 UTC, attempt 1 of 3; it was asked to stop: enough"
    assert fire(State.SKIPPED, "excluded").words == "over: skipped (excluded)"
    assert not fire(State.SUCCEEDED).waits


def test_an_occurrence_that_nobody_has_claimed_has_a_reason_too():
    assert due(fire_at=NOON + MINUTE).why is Why.NOT_DUE
    assert due().why is Why.CLAIM
    assert due(fire_at=NOON - MINUTE).why is Why.MISFIRE
    assert due(fire_at=NOON - MINUTE, held_since=NOON - 5 * MINUTE).why is Why.SHARE
    assert due(line=line("rate")).why is Why.RATE
    assert due(is_excluded=True).why is Why.EXCLUDED
    assert due(problem="no such zone").words == "no such zone"
    assert due(fire_at=None).why is Why.OVER


def test_in_a_time_lapse_real_times_are_told():
    now = Moment(real=NOON, job=NOON, lapse=TimeLapse(NOON, NOON, speed=60))
    facts = DueFacts(
        fire_at=NOON + MINUTE, grace_s=30, misfire="all", is_excluded=False, problem="", owner=LIVES, line=line()
    )
    assert why_due(facts, now).expected_at == NOON + timedelta(seconds=1)


def test_whatever_is_known_there_is_exactly_one_reason():
    states = [State.CLAIMED, State.PARKED, State.RETRY_WAIT, State.RUNNING]
    reasons = ["", "share", "rate", "cap", "budget", "overlap", "turn", "unsendable", "failed", "redriven"]
    facts = product(
        states, reasons, (LIVES, NOBODY), (None, PAUSE), (None, "", "rate"), (-MINUTE, MINUTE), (False, True)
    )
    for state, reason, owner, pause, holds_up, wakes_in, is_published in facts:
        found = fire(
            state,
            reason,
            owner=owner,
            pause=pause,
            line=line(holds_up, gates=GATES[: len(reason) % 4]),
            wake_at=NOON + wakes_in,
            is_published=is_published,
        )
        assert found.why in Why
        assert found.words
        assert found.waits is (state is not State.RUNNING)
