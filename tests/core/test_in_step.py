"""Of a tenant's backlog neither half of a node's shards goes on far before the other."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from scheduling.core.due import Due
from scheduling.core.effects import ReadDue
from scheduling.core.in_step import InStep
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_work

EVEN, ODD = frozenset({0, 2}), frozenset({1, 3})
ONE, TWO = 1, 2


class Looking:
    def __init__(self) -> None:
        self.in_step = InStep()

    def look(
        self, half: frozenset[int], found: dict[int, float], *, more: Collection[int], full: Collection[int] = ()
    ) -> None:
        """Of these tenants it takes what was due up to so many seconds after noon, but of those that are left out."""
        left_out = frozenset(full) | self.in_step.ahead(half)
        shard = min(half)
        jobs = [
            make_due(make_work(number, shard=shard, tenant_id=tenant), next_fire_at=NOON + SECOND * at_s)
            for number, (tenant, at_s) in enumerate(found.items())
            if tenant not in left_out
        ]
        left = {(tenant, shard) for tenant in more if tenant not in left_out}
        self.in_step.looked(ReadDue(half, NOON, 10, left_out), Due(jobs, half, frozenset(left)))


@pytest.fixture
def looking() -> Looking:
    looking = Looking()
    looking.look(EVEN, {ONE: 5, TWO: 5}, more=[ONE, TWO])
    return looking


def test_who_has_come_further_in_one_half_waits_for_the_other(looking: Looking) -> None:
    looking.look(ODD, {ONE: 9, TWO: 1}, more=[ONE, TWO])
    assert looking.in_step.ahead(ODD) == {ONE}
    assert looking.in_step.ahead(EVEN) == set()
    looking.look(EVEN, {ONE: 20, TWO: 20}, more=[ONE, TWO])
    assert looking.in_step.ahead(ODD) == set()
    assert looking.in_step.ahead(EVEN) == {ONE, TWO}


def test_he_waits_for_a_half_that_was_looked_at_without_him_so_far() -> None:
    looking = Looking()
    looking.look(ODD, {}, more=[], full=[ONE])
    looking.look(EVEN, {ONE: 9}, more=[ONE])
    assert looking.in_step.ahead(EVEN) == {ONE}
    looking.look(ODD, {ONE: 1}, more=[ONE])
    assert looking.in_step.ahead(EVEN) == {ONE}
    looking.look(ODD, {}, more=[])
    assert looking.in_step.ahead(EVEN) == set()


def test_he_waits_until_the_other_half_has_come_as_far(looking: Looking) -> None:
    looking.look(ODD, {ONE: 9}, more=[ONE])
    looking.look(EVEN, {ONE: 8}, more=[ONE])
    assert looking.in_step.ahead(ODD) == {ONE}
    looking.look(EVEN, {ONE: 9}, more=[ONE])
    assert looking.in_step.ahead(ODD) == looking.in_step.ahead(EVEN) == set()


def test_he_waits_on_while_the_other_half_is_looked_at_without_him(looking: Looking) -> None:
    looking.look(ODD, {ONE: 9}, more=[ONE])
    looking.look(EVEN, {ONE: 20}, more=[ONE], full=[ONE])
    looking.look(ODD, {ONE: 20}, more=[ONE])
    assert looking.in_step.ahead(ODD) == {ONE}


def test_he_waits_no_longer_once_the_other_half_comes_no_further(looking: Looking) -> None:
    looking.look(ODD, {ONE: 9}, more=[ONE])
    looking.look(EVEN, {ONE: 5}, more=[ONE])  # the rows are somebody's, and nothing was claimed
    assert looking.in_step.ahead(ODD) == set()


@pytest.mark.parametrize("half", [EVEN, ODD])
def test_nobody_waits_for_a_half_in_which_he_has_nothing_more(looking: Looking, half: frozenset[int]) -> None:
    has_more = [ONE] if half == EVEN else []
    looking.look(EVEN, {ONE: 5}, more=[ONE] if half == ODD else [])
    looking.look(ODD, {ONE: 9}, more=has_more)
    assert looking.in_step.ahead(ODD) == set()


def test_nobody_waits_for_shards_that_have_gone(looking: Looking) -> None:
    looking.look(ODD, {ONE: 9}, more=[ONE])
    looking.in_step.forget()
    assert looking.in_step.ahead(ODD) == set()
    looking.look(ODD, {ONE: 10}, more=[ONE])
    assert looking.in_step.ahead(ODD) == set()
