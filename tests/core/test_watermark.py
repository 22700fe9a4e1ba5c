from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.watermark import Watermark


def watermark_with(numbers: int) -> Watermark:
    watermark = Watermark(epoch=7)
    for _ in range(numbers):
        watermark.allocate()
    return watermark


def test_numbers_count_from_one_and_the_mark_starts_before_them() -> None:
    watermark = Watermark(epoch=7)
    assert watermark.mark == 0
    assert [watermark.allocate() for _ in range(3)] == [1, 2, 3]
    assert watermark.mark == 0
    assert watermark.epoch == 7


def test_the_mark_waits_for_the_lowest_outstanding_number() -> None:
    watermark = watermark_with(7)
    for n in (1, 2, 3, 5, 6):
        watermark.done(n)
    assert watermark.mark == 3
    watermark.done(4)
    assert watermark.mark == 6


def test_the_mark_never_passes_a_number_that_was_not_given_out_yet() -> None:
    watermark = watermark_with(2)
    watermark.done(1)
    watermark.done(2)
    assert watermark.mark == 2
    watermark.allocate()
    watermark.done(1)
    assert watermark.mark == 2


@pytest.mark.parametrize("n", [0, -1, 3])
def test_a_number_that_was_never_given_out_is_refused(n: int) -> None:
    with pytest.raises(InvalidField, match=f"n {n}: epoch 7 has given out 1 to 2"):
        watermark_with(2).done(n)


def test_numbers_that_recovery_left_out_do_not_hold_the_mark() -> None:
    watermark = Watermark(epoch=7)
    for n in (6, 2, 5):  # 1, 3 and 4 were acquired by workers while recovery numbered them
        watermark.reserve(n)
    assert watermark.allocate() == 7
    watermark.done(2)
    assert watermark.mark == 4
    watermark.done(6)
    watermark.done(5)
    assert watermark.mark == 6


def test_a_number_that_the_mark_has_passed_cannot_be_reserved() -> None:
    watermark = watermark_with(2)
    watermark.done(1)
    with pytest.raises(InvalidField, match="n 1: the mark of epoch 7 stands at 1 already"):
        watermark.reserve(1)


@given(st.integers(0, 60), st.data())
def test_the_mark_is_the_highest_number_below_which_none_is_outstanding(numbers: int, data: st.DataObject) -> None:
    watermark = watermark_with(numbers)
    outstanding = set(range(1, numbers + 1))
    for n in data.draw(st.lists(st.integers(1, numbers), max_size=150)) if numbers else []:
        before = watermark.mark
        watermark.done(n)
        outstanding.discard(n)
        assert watermark.mark == min(outstanding, default=numbers + 1) - 1
        assert watermark.mark >= before


@given(st.lists(st.sampled_from(["allocate", "done"]), max_size=200), st.randoms(use_true_random=False))
def test_allocating_between_confirms_keeps_the_mark_right(steps: list[str], rng: random.Random) -> None:
    watermark, outstanding, highest = Watermark(epoch=1), set[int](), 0
    for step in steps:
        if step == "allocate":
            highest = watermark.allocate()
            outstanding.add(highest)
        elif outstanding:
            n = rng.choice(sorted(outstanding))
            outstanding.remove(n)
            watermark.done(n)
        assert watermark.mark == min(outstanding, default=highest + 1) - 1


def test_what_is_settled_takes_no_memory() -> None:
    watermark = watermark_with(50_000)
    for n in range(2, 50_001):
        watermark.done(n)
    assert watermark._outstanding == {1}
    watermark.done(1)
    assert watermark.mark == 50_000
    assert not watermark._outstanding
