"""The seats of many children beside a list that is sorted anew each time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.core import seats as module
from fairness.core.branch import SLACK, Branch
from fairness.core.node import Flow
from fairness.core.seats import FEW, Entry, Seats

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "pop", "exchange", "leave", "clear"]), st.integers(0, 60) | st.integers(0, 1 << 90)
    ),
    max_size=200,
)


class Model:
    """Seats, and what should be in them."""

    def __init__(self) -> None:
        self.seats: Seats[Any] = Seats()
        self.counting: list[Entry[Any]] = []
        self.orders = 0
        self.branch: Branch[Any] = Branch("", None)

    def entry(self, tag: int) -> Entry[Any]:
        self.orders += 1
        child: Flow[Any] = Flow(self.orders, self.branch)
        child.tag = tag
        entry = child.new_entry(self.orders)
        self.counting.append(entry)
        return entry

    def take_out(self, entry: Entry[Any] | None) -> None:
        assert entry == min(self.counting, default=None)
        if entry is not None:
            self.counting.remove(entry)

    def leave_behind(self, at: int) -> None:
        if self.counting:
            self.counting.pop(at % len(self.counting))[2].seat = 0
            self.seats.left_behind += 1

    def do(self, what: str, number: int) -> None:
        if what == "add":
            self.seats.add(self.entry(number))
        elif what == "pop":
            self.take_out(self.seats.pop())
        elif what == "exchange":
            self.take_out(self.seats.exchange(self.entry(number)))
        elif what == "leave":
            self.leave_behind(number)
        else:
            self.seats.clear_left_behind()
            assert self.seats.left_behind == 0
        held = list(self.seats)
        assert sorted(entry for entry in held if entry[2].seat == entry[1]) == sorted(self.counting)
        assert len(held) == len(self.counting) + self.seats.left_behind
        assert list(self.seats.in_order()) == sorted(held)


@pytest.mark.parametrize("few", [2, FEW])
@settings(max_examples=80, deadline=None)
@given(steps=steps)
def test_whoever_is_least_comes_out_whatever_was_done(few: int, steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", few)
        model = Model()
        for what, number in steps:
            model.do(what, number)
        while model.counting:
            model.do("pop", 0)


@pytest.mark.parametrize(
    "step",
    [lambda _: 1 << 40, lambda rng: rng.randrange(1 << 34, 1 << 40), lambda rng: 1 << rng.randrange(70)],
    ids=["all alike", "weights from 1 to 50", "weights from the least to the greatest"],
)
def test_thousands_come_out_in_their_order_as_each_moves_on(step: Any) -> None:
    rng = random.Random(1)
    seats: Seats[Any] = Seats()
    branch: Branch[Any] = Branch("", None)
    for number in range(3000):
        child: Flow[Any] = Flow(number, branch)
        seats.add(child.new_entry(1 + number))
    found = seats.pop()
    for order in range(3001, 20_000):
        assert found is not None
        before, mover = found, found[2]
        mover.tag += step(rng)
        found = seats.exchange(mover.new_entry(order))
        assert found > before
    assert len(list(seats)) == 2999


def test_who_is_far_and_has_grown_comes_out_by_the_tag_that_it_has_now() -> None:
    rng = random.Random(3)
    seats: Seats[Any] = Seats()
    branch: Branch[Any] = Branch("", None)
    for number in range(3 * FEW):
        child: Flow[Any] = Flow(number, branch)
        child.tag = rng.randrange(1 << 40)
        seats.add(child.new_entry(1 + number))
    far = [entry[2] for bucket in seats._far.values() for entry in bucket]
    for each in far:
        each.tag += rng.randrange(1 << 40)
    out: list[Entry[Any]] = []
    while (popped := seats.pop()) is not None:
        out.append(popped)
    assert set(far) < {child for _, _, child in out}
    assert [tag for tag, _, _ in out] == sorted(child.tag for _, _, child in out)
    assert all(entry[0] == entry[2].tag and entry[2].seat == entry[1] for entry in out)


def test_a_bucket_holds_a_small_part_of_the_many_however_they_are_spread() -> None:
    """Else each turn would move through a large heap, or through a heap of buckets with one entry each."""
    rng = random.Random(2)
    for spread in (1 << 20, 1 << 44, 1 << 80):
        seats: Seats[Any] = Seats()
        branch: Branch[Any] = Branch("", None)
        for number in range(10_000):
            child: Flow[Any] = Flow(number, branch)
            child.tag = rng.randrange(spread)
            seats.add(child.new_entry(1 + number))
        while seats.pop() is not None and len(list(seats)) > 9_000:
            pass
        assert 10_000 / module.FITTING / 4 < len(seats._far) < 10_000 / module.FITTING * 4


def test_of_many_only_few_are_one_heap_again() -> None:
    model = Model()
    for tag in range(4 * FEW):
        model.seats.add(model.entry(tag << 20))
    while len(model.counting) > 10:
        model.take_out(model.seats.pop())
    for tag in range(3000):
        model.take_out(model.seats.exchange(model.entry((5000 + tag) << 20)))
    assert not model.seats._far


def test_of_those_left_behind_each_is_counted_also_when_they_are_cleared() -> None:
    branch: Branch[Any] = Branch("", None)
    children = [Flow(name, branch) for name in range(3)]
    branch.children |= {child.name: child for child in children}
    for child in children:
        child.tag = 1 << 30
        branch.give_seat(child)
    for _ in range(3 * SLACK):
        children[2].move_to(children[2].tag - 1)
        children[1].move_to(children[1].tag - 1)
        assert branch.others is not None
        counting = [entry for entry in branch.others if entry[2].seat == entry[1]]
        assert len(list(branch.others)) == len(counting) + branch.others.left_behind
