"""The wheel against a sorted list: whatever is added, taken away and advanced, both must give the same."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from scheduling.core.errors import InvalidField
from scheduling.core.timing_wheel import TimingWheel, tick_of

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
ERA = 2**32
AGES = 2**42  # further than any test adds
NOW = 1_796_000_000_000  # in 2026

# Distances near the borders of every level, where a wheel goes wrong, and any others.
borders = st.builds(lambda level, off: 256**level + off, st.integers(0, 5), st.integers(-3, 3))
distances = st.one_of(st.integers(0, 20), st.integers(0, 600), borders, st.integers(0, 3 * ERA))
starts = st.one_of(
    st.integers(0, 300),
    st.builds(
        lambda level, times, off: max(0, 256**level * times + off),
        st.integers(1, 4),
        st.integers(1, 9),
        st.integers(-3, 3),
    ),
    st.just(NOW),
)


class SortedList:
    """The model: what a wheel promises, in the plainest way."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def advance(self, to_tick: int) -> list[int]:
        due = sorted((entry for entry in self.entries if entry[0] <= to_tick), key=lambda entry: entry[0])
        self.entries = [entry for entry in self.entries if entry[0] > to_tick]
        return [item for _, item in due]

    def remove(self, items: set[int]) -> None:
        self.entries = [entry for entry in self.entries if entry[1] not in items]


class WheelAndList(RuleBasedStateMachine):
    @initialize(start=starts)
    def begin(self, start: int) -> None:
        self.wheel: TimingWheel[int] = TimingWheel(start)
        self.model = SortedList()
        self.now, self.added = start, 0

    def add_at(self, deadline: int) -> None:
        self.added += 1
        self.wheel.add(deadline, self.added)
        self.model.entries.append((deadline, self.added))

    @rule(ahead=st.lists(distances, min_size=1, max_size=8))
    def add(self, ahead: list[int]) -> None:
        for distance in ahead:
            self.add_at(self.now + distance)

    @rule(distance=distances, times=st.integers(2, 5))
    def add_several_to_one_tick(self, distance: int, times: int) -> None:
        for _ in range(times):
            self.add_at(self.now + distance)

    @rule(ago=st.integers(0, 1000))
    def add_in_the_past(self, ago: int) -> None:
        self.add_at(self.now - ago)

    @rule(distance=distances)
    def advance(self, distance: int) -> None:
        self.now += distance
        assert self.wheel.advance(self.now) == self.model.advance(self.now)

    @rule(ago=st.integers(1, 1000))
    def advance_backwards(self, ago: int) -> None:
        assert self.wheel.advance(self.now - ago) == self.model.advance(self.now - ago)

    @rule()
    def advance_to_the_next_deadline_until_something_fires(self) -> None:
        if not self.model.entries:
            return
        for _ in range(5):  # four vain wake-ups at most, and the one that fires
            tick = self.wheel.next_deadline()
            assert tick is not None
            self.now = max(self.now, tick)
            fired = self.wheel.advance(self.now)
            assert fired == self.model.advance(self.now)
            if fired:
                return
        raise AssertionError("five wake-ups and nothing fired")

    @rule(divisor=st.integers(1, 4), rest=st.integers(0, 3))
    def remove(self, divisor: int, rest: int) -> None:
        leaving = {item for _, item in self.model.entries if item % divisor == rest}
        removed = self.wheel.remove_if(lambda item: item % divisor == rest)
        assert sorted(removed) == sorted(leaving)
        self.model.remove(leaving)

    @rule()
    def clear(self) -> None:
        self.wheel.clear()
        self.model.entries.clear()

    @invariant()
    def agrees_with_the_list(self) -> None:
        assert len(self.wheel) == len(self.model.entries)
        bound = self.wheel.next_deadline()
        if not self.model.entries:
            assert bound is None
        else:
            true_next = min(self.model.entries)[0]
            assert bound is not None
            assert bound <= true_next
            assert bound > self.now or bound == true_next, "an early answer that is not in the future makes a loop spin"

    def teardown(self) -> None:
        if hasattr(self, "wheel"):
            self.now += AGES
            assert self.wheel.advance(self.now) == self.model.advance(self.now)
            assert len(self.wheel) == 0


def test_any_interleaving_gives_what_a_sorted_list_gives() -> None:
    run_state_machine_as_test(WheelAndList, settings=settings(max_examples=150, stateful_step_count=30, deadline=None))


@given(starts, st.lists(distances, max_size=60))
@settings(deadline=None)
def test_one_big_jump_gives_all_in_order(start: int, ahead: list[int]) -> None:
    wheel: TimingWheel[tuple[int, int]] = TimingWheel(start)
    entries = [(start + distance, number) for number, distance in enumerate(ahead)]
    for entry in entries:
        wheel.add(entry[0], entry)
    assert wheel.advance(start + AGES) == sorted(entries)


@given(starts, st.lists(st.integers(1, 3000), max_size=30), st.integers(1, 40))
@settings(deadline=None, max_examples=100)
def test_stepping_fires_each_item_in_the_first_step_that_reaches_it(start: int, ahead: list[int], step: int) -> None:
    wheel: TimingWheel[int] = TimingWheel(start)
    for distance in ahead:
        wheel.add(start + distance, start + distance)
    for now in range(start + step, start + 3000 + step, step):
        assert all(now - step < deadline <= now for deadline in wheel.advance(now))
    assert len(wheel) == 0


def tick(d3: int, d2: int, d1: int, d0: int) -> int:
    return ((d3 * 256 + d2) * 256 + d1) * 256 + d0


def test_the_worked_example_of_the_docstring_is_true() -> None:
    wheel: TimingWheel[str] = TimingWheel(tick(0, 0, 5, 250))
    assert tick(0, 0, 5, 250) == 1530
    wheel.add(tick(0, 0, 5, 252), "in 2 ms")
    wheel.add(tick(0, 0, 6, 3), "in 9 ms")
    wheel.add(tick(0, 2, 0, 7), "in 129 s")
    assert wheel.next_deadline() == tick(0, 0, 5, 252)
    assert wheel.advance(tick(0, 0, 6, 10)) == ["in 2 ms", "in 9 ms"]
    assert wheel.next_deadline() == tick(0, 2, 0, 0)
    assert wheel.advance(tick(0, 2, 0, 0)) == []
    assert wheel.next_deadline() == tick(0, 2, 0, 7)
    assert wheel.advance(tick(0, 2, 0, 7)) == ["in 129 s"]


@pytest.mark.parametrize(
    "distance", [0, 1, 255, 256, 257, 65_535, 65_536, SECOND, MINUTE, HOUR, DAY, 60 * DAY, 9000 * DAY]
)
def test_an_item_fires_at_its_tick_and_not_one_before(distance: int) -> None:
    wheel: TimingWheel[str] = TimingWheel(NOW)
    wheel.add(NOW + distance, "it")
    assert wheel.advance(NOW + distance - 1) == []
    assert wheel.advance(NOW + distance) == ["it"]
    assert wheel.advance(NOW + distance) == []


def test_items_of_one_tick_come_out_as_they_were_added_even_when_added_at_different_levels() -> None:
    wheel: TimingWheel[str] = TimingWheel(NOW)
    deadline = NOW + HOUR
    wheel.add(deadline, "an hour before")
    wheel.advance(deadline - MINUTE)
    wheel.add(deadline, "a minute before")
    wheel.advance(deadline - 1)
    wheel.add(deadline, "a tick before")
    assert wheel.advance(deadline) == ["an hour before", "a minute before", "a tick before"]


def test_late_items_come_before_the_others_in_order_of_deadline() -> None:
    wheel: TimingWheel[str] = TimingWheel(NOW)
    wheel.add(NOW + 1, "next")
    wheel.add(NOW, "now")
    wheel.add(NOW - DAY, "yesterday")
    assert wheel.next_deadline() == NOW - DAY
    assert wheel.advance(NOW + 1) == ["yesterday", "now", "next"]


def test_a_clock_that_goes_back_fires_nothing_early() -> None:
    wheel: TimingWheel[str] = TimingWheel(NOW)
    wheel.add(NOW - 5, "late")
    wheel.add(NOW - 20, "later")
    assert wheel.advance(NOW - 10) == ["later"]
    assert wheel.advance(NOW) == ["late"]


def test_an_item_over_the_border_of_an_era_fires_a_millisecond_later() -> None:
    wheel: TimingWheel[str] = TimingWheel(ERA - 1)
    wheel.add(ERA, "first of the new era")
    wheel.add(3 * ERA + 7, "two eras on")
    assert wheel.advance(ERA) == ["first of the new era"]
    assert wheel.next_deadline() == 3 * ERA
    assert wheel.advance(3 * ERA + 6) == []
    assert wheel.advance(3 * ERA + 7) == ["two eras on"]


def test_items_that_leave_are_handed_over_and_the_rest_stay_in_order() -> None:
    wheel: TimingWheel[tuple[int, str]] = TimingWheel(NOW)
    for shard, name, distance in [
        (1, "a", 5),
        (2, "b", 5),
        (1, "c", -5),
        (2, "d", DAY),
        (2, "e", 5),
        (1, "f", 99 * DAY),
    ]:
        wheel.add(NOW + distance, (shard, name))
    assert sorted(wheel) == [(1, "a"), (1, "c"), (1, "f"), (2, "b"), (2, "d"), (2, "e")]
    assert sorted(wheel.remove_if(lambda item: item[0] == 1)) == [(1, "a"), (1, "c"), (1, "f")]
    assert len(wheel) == 3
    assert wheel.advance(NOW + 99 * DAY) == [(2, "b"), (2, "e"), (2, "d")]


def test_a_predicate_that_raises_changes_nothing() -> None:
    wheel: TimingWheel[int] = TimingWheel(NOW)
    wheel.add(NOW + 1, 1)
    wheel.add(NOW + HOUR, 0)
    with pytest.raises(ZeroDivisionError):
        wheel.remove_if(lambda item: 1 // item == 1)
    assert wheel.advance(NOW + HOUR) == [1, 0]


def test_an_empty_wheel_has_no_next_deadline_and_jumps_for_free() -> None:
    wheel: TimingWheel[int] = TimingWheel(0)
    assert wheel.advance(10**15) == []
    assert wheel.next_deadline() is None


def test_a_negative_start_is_refused() -> None:
    with pytest.raises(InvalidField, match="start_tick -1: a tick is a whole number from 0 up"):
        TimingWheel(-1)


@pytest.mark.parametrize("span", [SECOND, MINUTE, DAY])
def test_a_bare_timer_weighs_at_most_120_bytes(span: int) -> None:
    tracemalloc.start()
    try:
        wheel: TimingWheel[None] = TimingWheel(NOW)
        for number in range(50_000):
            wheel.add(NOW + 1 + number * 7919 % span, None)
        weight, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert weight / 50_000 <= 120


@given(st.integers(0, 10**10))
def test_whoever_wakes_at_a_tick_as_seconds_finds_it_reached(tick: int) -> None:
    assert tick_of(tick / 1000) == tick
    assert tick_of((tick + 0.5) / 1000) == tick
