"""The judge of a chaos run, on rows made by hand: it must see each way in which a promise can be broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from fairness.core.terms import Bound
from tests.chaos import runlog
from tests.chaos.deeds import Ban, Limited, Owed
from tests.chaos.judge import Evidence, FireRow, Start, Verdict, judge
from tests.chaos.runlog import Run

JOB = uuid4()
T0 = datetime(2026, 1, 1, tzinfo=UTC)
DUE = [T0 + timedelta(seconds=second) for second in range(4)]
FIRES = [FireRow(uuid4(), JOB, at, "succeeded", attempt=3, max_attempts=3) for at in DUE]
SECOND = 10**9
LEASE_S = 6.0


def run(fire: UUID, *, fence: int = 1, asked_s: float = 0.0, ended_s: float | None = None) -> Run:
    asked_ns = int(asked_s * SECOND)
    ended_ns = None if ended_s is None else int(ended_s * SECOND)
    return Run(fire, fence, uuid4(), asked_ns, asked_ns + SECOND // 100, ended_ns)


def verdict(
    fires: Sequence[FireRow] = FIRES,
    *,
    effects: Sequence[UUID] | None = None,
    runs: Sequence[Run] | None = None,
    owed: Owed = Owed(DUE),  # noqa: B008  (a frozen value)
    **further: Any,
) -> Verdict:
    """Where nothing else is said, what succeeded ran once, and has its effect."""
    succeeded = [fire.id for fire in fires if fire.state == "succeeded"]
    return judge(
        Evidence(
            owed={JOB: owed},
            fires=fires,
            effects=succeeded if effects is None else effects,
            runs=[run(fire, ended_s=0.1) for fire in succeeded] if runs is None else runs,
            lease_s=LEASE_S,
            **further,
        )
    )


def instead(**changes: Any) -> list[FireRow]:
    """The second fire is another."""
    return [FIRES[0], FIRES[1]._replace(**changes), *FIRES[2:]]


def test_a_run_in_which_all_went_well_is_clean() -> None:
    found = verdict()
    assert found.is_clean
    assert (found.due, found.fired, found.runs) == (4, 4, 4)


def test_what_is_skipped_with_a_reason_is_accounted_for() -> None:
    found = verdict(instead(state="skipped", reason="overlap"))
    assert found.is_clean
    assert (found.fired, found.skipped) == (3, {"overlap": 1})


def test_one_row_may_stand_for_a_stretch_of_skipped_occurrences() -> None:
    stretch = FIRES[1]._replace(state="skipped", reason="missed", covers_to=DUE[3])
    found = verdict([FIRES[0], stretch])
    assert found.is_clean
    assert found.skipped == {"missed": 3}


def test_an_occurrence_without_a_row_is_lost() -> None:
    assert verdict(FIRES[:1] + FIRES[2:]).lost == [(f"job {JOB} at {DUE[1].isoformat()}: no row", DUE[1])]


@pytest.mark.parametrize("state", ["claimed", "parked", "retry_wait", "running", "dead"])
def test_a_fire_that_did_not_come_to_a_good_end_is_lost(state: str) -> None:
    assert len(verdict(instead(state=state)).lost) == 1


def test_a_success_without_its_effect_is_lost() -> None:
    assert len(verdict(effects=[fire.id for fire in FIRES[1:]]).lost) == 1


def test_a_second_row_of_an_occurrence_is_doubled() -> None:
    found = verdict([*FIRES, FIRES[1]._replace(id=uuid4())])
    assert found.doubled == [(f"job {JOB} at {DUE[1].isoformat()}: 2 rows", DUE[1])]


def test_a_row_that_no_occurrence_asked_for_is_doubled() -> None:
    beside = FIRES[1]._replace(id=uuid4(), scheduled_for=DUE[1] + timedelta(milliseconds=1))
    assert len(verdict([*FIRES, beside]).doubled) == 1


def test_a_row_of_a_job_that_does_not_exist_is_doubled() -> None:
    assert len(verdict([*FIRES, FIRES[1]._replace(id=uuid4(), job=uuid4())]).doubled) == 1


def test_a_second_effect_of_a_fire_is_doubled() -> None:
    assert len(verdict(effects=[fire.id for fire in (*FIRES, FIRES[2])]).doubled) == 1


def test_an_effect_of_a_fire_that_was_skipped_is_doubled() -> None:
    fires = instead(state="skipped", reason="overlap")
    assert len(verdict(fires, effects=[fire.id for fire in fires]).doubled) == 1


def test_an_effect_of_no_fire_is_doubled() -> None:
    assert len(verdict(effects=[*(fire.id for fire in FIRES), uuid4()]).doubled) == 1


def test_a_skipped_fire_that_ran_is_doubled() -> None:
    fires = instead(state="skipped", reason="overlap")
    assert len(verdict(fires, runs=[run(fire.id) for fire in fires]).doubled) == 1


def beside(*further: Run) -> Verdict:
    """The first fire ran as given, the others once."""
    return verdict(runs=[*further, *(run(fire.id, ended_s=0.1) for fire in FIRES[1:])])


def test_a_run_may_follow_one_that_has_ended() -> None:
    fire = FIRES[0].id
    assert beside(run(fire, ended_s=0.5), run(fire, fence=2, asked_s=0.6, ended_s=1)).is_clean


def test_a_run_may_follow_one_that_was_killed_once_its_lease_is_out() -> None:
    fire = FIRES[0].id
    assert beside(run(fire), run(fire, fence=2, asked_s=LEASE_S + 0.1, ended_s=9)).is_clean


def test_a_run_that_outlives_its_lease_may_end_beside_its_successor() -> None:
    fire = FIRES[0].id
    assert beside(run(fire, ended_s=20), run(fire, fence=2, asked_s=LEASE_S + 0.1, ended_s=9)).is_clean


def test_two_runs_within_one_lease_are_two_holders() -> None:
    fire = FIRES[0].id
    found = beside(run(fire), run(fire, fence=2, asked_s=LEASE_S - 1, ended_s=9))
    assert [finding.at for finding in found.unheld] == [DUE[0]]
    assert not found.is_clean


@pytest.mark.parametrize("fence", [1, 2])
def test_a_run_under_a_fence_that_was_used_is_not_let_begin(fence: int) -> None:
    fire = FIRES[0].id
    found = beside(run(fire, fence=2, ended_s=0.5), run(fire, fence=fence, asked_s=30, ended_s=31))
    assert len(found.unheld) == 1


def test_a_success_that_nobody_ran_is_noticed() -> None:
    assert len(verdict(runs=[run(fire.id) for fire in FIRES[1:]]).unheld) == 1


def test_a_fire_that_had_to_die_and_has_its_dead_letter_is_accounted_for() -> None:
    fires = instead(state="dead", reason="attempts_exhausted")
    found = verdict(fires, letters={FIRES[1].id: "attempts_exhausted"}, deaths={JOB: ["attempts_exhausted"]})
    assert found.is_clean
    assert found.dead == {"attempts_exhausted": 1}


@pytest.mark.parametrize("letters", [{}, {FIRES[1].id: "rejected"}], ids=["none", "for another reason"])
def test_a_fire_that_had_to_die_without_its_dead_letter_is_lost(letters: dict[UUID, str]) -> None:
    fires = instead(state="dead", reason="attempts_exhausted")
    assert len(verdict(fires, letters=letters, deaths={JOB: ["attempts_exhausted"]}).lost) == 1


def test_a_fire_that_did_not_have_to_die_is_lost_though_there_is_a_dead_letter() -> None:
    fires = instead(state="dead", reason="attempts_exhausted")
    letters = {FIRES[1].id: "attempts_exhausted"}
    assert len(verdict(fires, letters=letters).lost) == 1
    assert len(verdict(fires, letters=letters, deaths={JOB: ["unknown_task"]}).lost) == 1


def test_a_dead_letter_of_what_lives_or_of_nothing_is_doubled() -> None:
    assert len(verdict(letters={FIRES[1].id: "rejected"}).doubled) == 1
    assert len(verdict(letters={uuid4(): "rejected"}).doubled) == 1


def test_a_message_that_was_to_be_refused_and_is_in_no_dead_letter_is_lost() -> None:
    assert [finding.text for finding in verdict(unread=["mark-1"]).lost] == ["the message mark-1 is in no dead letter"]


def test_more_runs_than_attempts_should_not_have_begun() -> None:
    fire = FIRES[0]._replace(attempt=2)
    runs = [run(fire.id, fence=fence, asked_s=10 * fence, ended_s=10 * fence + 1) for fence in (1, 2, 3)]
    others = [run(each.id, ended_s=0.1) for each in FIRES[1:]]
    assert len(verdict([fire, *FIRES[1:]], runs=[*runs[:2], *others]).unheld) == 0
    assert len(verdict([fire, *FIRES[1:]], runs=[*runs, *others]).unheld) == 1


EDITED = Owed(DUE[:1] + DUE[2:], spare={DUE[1]: DUE[1] + timedelta(milliseconds=50)})  # the second was edited away


def test_an_occurrence_that_was_edited_away_need_have_no_row_but_may_have_one() -> None:
    assert verdict(FIRES[:1] + FIRES[2:], owed=EDITED).is_clean
    assert verdict(instead(state="skipped", reason="superseded"), owed=EDITED).is_clean
    assert len(verdict([*FIRES, FIRES[1]._replace(id=uuid4())], owed=EDITED).doubled) == 1


@pytest.mark.parametrize(("began_ms", "found"), [(40, 0), (60, 1)])
def test_what_was_edited_away_may_have_begun_before_that_was_known(began_ms: int, found: int) -> None:
    start = Start(FIRES[1].id, JOB, DUE[1], DUE[1] + timedelta(milliseconds=began_ms))
    assert len(verdict(owed=EDITED, starts=[start]).unheld) == found


@pytest.mark.parametrize(("began_s", "found"), [(0.5, 0), (1.5, 1), (2.5, 0)])
def test_nothing_begins_while_its_job_is_paused(began_s: float, found: int) -> None:
    start = Start(FIRES[0].id, JOB, DUE[0], T0 + timedelta(seconds=began_s))
    assert len(verdict(starts=[start], bans=[Ban(JOB, DUE[1], DUE[2])]).unheld) == found


def test_nothing_begins_once_its_job_is_deleted() -> None:
    start = Start(FIRES[0].id, JOB, DUE[0], T0 + timedelta(hours=1))
    assert len(verdict(starts=[start], bans=[Ban(JOB, DUE[1])]).unheld) == 1


def test_the_log_of_runs_tells_who_began_and_ended_and_who_did_not() -> None:
    first, second = run(uuid4(), ended_s=3.0), run(uuid4(), fence=7, asked_s=1)
    lines = [
        f"began {first.fire} 1 {first.holder} {first.asked_ns} {first.began_ns} 4711\n",
        f"began {second.fire} 7 {second.holder} {second.asked_ns} {second.began_ns} 4712\n",
        f"ended {first.holder} {first.ended_ns}\n",
    ]
    assert runlog.read(lines) == [first, replace(second)]
    with pytest.raises(ValueError, match="no line"):
        runlog.read(["began"])


def limited(bound: Bound, **span: int) -> list[Limited]:
    return [Limited("acme", frozenset([JOB]), bound, **span)]


def test_as_many_runs_at_once_as_a_cap_allows_are_in_order_and_one_more_is_not() -> None:
    runs = [run(fire.id, asked_s=number / 10, ended_s=1.0) for number, fire in enumerate(FIRES)]
    assert verdict(runs=runs, limits=limited(Bound(max_in_flight=4))).is_clean
    assert verdict(runs=runs, limits=limited(Bound(max_in_flight=3))).over == [("acme: 4 at once, of 3", DUE[3])]


def test_a_run_counts_against_a_cap_for_as_long_as_its_lease_and_a_fire_that_runs_again_once() -> None:
    outlived = run(FIRES[0].id, asked_s=0.0, ended_s=LEASE_S + 9)
    again = run(FIRES[0].id, fence=2, asked_s=LEASE_S + 1, ended_s=LEASE_S + 2)
    others = [run(fire.id, asked_s=LEASE_S + 1, ended_s=LEASE_S + 2) for fire in FIRES[1:]]
    assert verdict(runs=[outlived, again, *others], limits=limited(Bound(max_in_flight=4))).is_clean
    assert verdict(runs=[outlived, *others], limits=limited(Bound(max_in_flight=3))).is_clean


def test_a_second_burst_is_over_the_limit() -> None:
    fires = [FIRES[0]._replace(id=uuid4(), attempt=9, max_attempts=9) for _ in range(10)]
    runs = [run(fire.id, fence=n + 1, asked_s=20 + n / 100, ended_s=99) for fire in fires for n in range(6)]
    bound = Bound(rate_per_s=2.0, burst=50)  # and within two seconds four, for those that start late
    found = verdict([*FIRES, *fires], runs=runs, limits=limited(bound), effects=[fire.id for fire in FIRES])
    assert [finding.text for finding in found.over] == ["acme: 5 more than 2 a second and 50 at once"]
    assert not verdict([*FIRES, *fires], runs=runs, limits=limited(bound, since_ns=30 * SECOND)).over
    assert not verdict([*FIRES, *fires], runs=runs, limits=limited(Bound(rate_per_s=2.0, burst=56))).over
