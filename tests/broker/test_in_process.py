"""Runs in threads of this process: when a fire counts as confirmed, and what a full house, a failure and a stop do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from scheduling.broker.in_process import InProcessPublisher
from scheduling.core.fire import Fire, Verdict
from tests.broker.outcomes import Outcomes, fires
from tests.processes import PATIENCE_S


class Runs:
    """A `run` whose steps the test allows one by one."""

    def __init__(self) -> None:
        self.may_acquire = threading.Event()
        self.may_end = threading.Event()
        self.begun = threading.Semaphore(0)
        self.done: list[Fire] = []

    def __call__(self, fire: Fire, acquired: Callable[[], None]) -> None:
        self.begun.release()
        assert self.may_acquire.wait(PATIENCE_S)
        acquired()
        assert self.may_end.wait(PATIENCE_S)
        self.done.append(fire)

    def wait_until_begun(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE_S)


@pytest.fixture
def runs() -> Iterator[Runs]:
    made = Runs()
    yield made
    made.may_acquire.set()
    made.may_end.set()


@pytest.fixture
def publisher(runs: Runs, outcomes: Outcomes) -> InProcessPublisher:
    made = InProcessPublisher(runs, threads=2, capacity=5)
    made.start(outcomes.report)
    return made


def test_a_fire_is_confirmed_when_it_is_acquired_not_when_it_ends(
    publisher: InProcessPublisher, runs: Runs, outcomes: Outcomes
) -> None:
    publisher.publish(fires(1))
    runs.wait_until_begun(1)
    assert outcomes.all == []
    runs.may_acquire.set()
    assert outcomes.wait(1) == {Verdict.CONFIRMED: 1}
    assert runs.done == []


def test_what_is_beyond_the_capacity_is_nacked(publisher: InProcessPublisher, runs: Runs, outcomes: Outcomes) -> None:
    batch = fires(8)
    publisher.publish(batch)
    assert outcomes.wait(3) == {Verdict.NACKED: 3}
    assert [outcome.fire for outcome in outcomes.all] == batch[5:]
    runs.may_acquire.set()
    runs.may_end.set()
    assert outcomes.wait(8) == {Verdict.NACKED: 3, Verdict.CONFIRMED: 5}


def test_a_run_that_has_acquired_still_takes_its_place(
    publisher: InProcessPublisher, runs: Runs, outcomes: Outcomes
) -> None:
    runs.may_acquire.set()
    publisher.publish(fires(5))
    outcomes.wait(2)
    assert outcomes.publish(publisher, fires(1)) == {Verdict.NACKED: 1}


def test_a_run_that_ended_makes_room(publisher: InProcessPublisher, runs: Runs, outcomes: Outcomes) -> None:
    runs.may_acquire.set()
    runs.may_end.set()
    publisher.publish(fires(5))
    outcomes.wait(5)
    outcomes.publish_until(publisher, Verdict.CONFIRMED)


def test_stop_waits_for_runs_to_end(publisher: InProcessPublisher, runs: Runs, outcomes: Outcomes) -> None:
    batch = fires(5)
    publisher.publish(batch)
    runs.wait_until_begun(2)
    runs.may_acquire.set()
    runs.may_end.set()
    publisher.stop(timeout_s=10)
    assert set(map(id, runs.done)) == set(map(id, batch))
    assert outcomes.verdicts == {Verdict.CONFIRMED: 5}


def test_stop_gives_up_after_its_timeout(publisher: InProcessPublisher, runs: Runs, outcomes: Outcomes) -> None:
    publisher.publish(fires(5))
    runs.wait_until_begun(2)
    publisher.stop(timeout_s=0.05)
    assert outcomes.verdicts == {Verdict.LOST: 2, Verdict.UNSENT: 3}


def test_what_stop_gave_up_on_gets_no_second_outcome_and_does_not_begin(
    publisher: InProcessPublisher, runs: Runs, outcomes: Outcomes
) -> None:
    publisher.publish(fires(5))
    runs.wait_until_begun(2)
    publisher.stop(timeout_s=0.05)
    runs.may_acquire.set()
    runs.may_end.set()
    for thread in publisher._threads:
        thread.join(PATIENCE_S)
    assert len(runs.done) == 2
    assert len(outcomes.all) == 5


def test_a_run_that_returns_without_acquiring_is_confirmed(outcomes: Outcomes) -> None:
    publisher = InProcessPublisher(lambda *_: None, threads=1, capacity=5)
    publisher.start(outcomes.report)
    assert outcomes.publish(publisher, fires(1)) == {Verdict.CONFIRMED: 1}


@pytest.mark.parametrize("error", [OSError("the database is gone"), GeneratorExit("the database is gone")])
def test_a_run_that_raises_is_logged_and_lost_and_the_thread_goes_on(
    outcomes: Outcomes, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def run(fire: Fire, acquired: Callable[[], None]) -> None:
        if fire is bad:
            raise error

    publisher = InProcessPublisher(run, threads=1, capacity=5)
    publisher.start(outcomes.report)
    bad, good = batch = fires(2)
    assert outcomes.publish(publisher, batch) == {Verdict.LOST: 1, Verdict.CONFIRMED: 1}
    assert outcomes.of(bad) == [Verdict.LOST]
    assert outcomes.of(good) == [Verdict.CONFIRMED]
    assert str(bad.id) in caplog.text
    assert "the database is gone" in caplog.text


def test_a_run_that_raises_after_acquiring_stays_confirmed(
    outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    def run(fire: Fire, acquired: Callable[[], None]) -> None:
        acquired()
        acquired()
        raise RuntimeError("the task failed")

    publisher = InProcessPublisher(run, threads=1, capacity=5)
    publisher.start(outcomes.report)
    publisher.publish(fires(1))
    publisher.stop(timeout_s=10)
    assert outcomes.verdicts == {Verdict.CONFIRMED: 1}
    assert "the task failed" in caplog.text
