"""The twin in memory: the test decides."""

from __future__ import annotations

import pytest

from scheduling.broker.memory import MemoryPublisher
from scheduling.core.fire import Verdict
from tests.broker.outcomes import Outcomes, fires


@pytest.fixture
def publisher(outcomes: Outcomes) -> MemoryPublisher:
    made = MemoryPublisher()
    made.start(outcomes.report)
    return made


def test_each_verdict_is_for_the_fires_that_are_named(publisher: MemoryPublisher, outcomes: Outcomes) -> None:
    one, two, three, four, five = batch = fires(5)
    publisher.publish(batch)
    publisher.confirm(two)
    publisher.nack(one, three)
    publisher.lose(four)
    publisher.refuse(five)
    assert [(outcome.fire, outcome.verdict) for outcome in outcomes.all] == [
        (two, Verdict.CONFIRMED),
        (one, Verdict.NACKED),
        (three, Verdict.NACKED),
        (four, Verdict.LOST),
        (five, Verdict.UNSENT),
    ]
    assert publisher.open == []
    assert publisher.published == batch


def test_without_names_a_verdict_is_for_all_that_are_open(publisher: MemoryPublisher, outcomes: Outcomes) -> None:
    batch = fires(3)
    publisher.publish(batch)
    publisher.confirm(batch[0])
    publisher.nack()
    publisher.nack()
    assert outcomes.verdicts == {Verdict.CONFIRMED: 1, Verdict.NACKED: 2}


def test_a_fire_cannot_get_a_second_outcome(publisher: MemoryPublisher) -> None:
    batch = fires(1)
    publisher.publish(batch)
    publisher.confirm()
    with pytest.raises(ValueError, match="not in list"):
        publisher.lose(batch[0])


def test_stop_loses_what_is_undecided(publisher: MemoryPublisher, outcomes: Outcomes) -> None:
    publisher.publish(fires(2))
    publisher.stop(timeout_s=0)
    assert outcomes.verdicts == {Verdict.LOST: 2}
