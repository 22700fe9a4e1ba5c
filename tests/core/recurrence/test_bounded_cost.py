"""The worst that an expression can cost, in lines of Python that run and bytes that it takes: a count cannot flake.

40,000 lines are under 5 ms on the machine that the figures of this project are from. Everything is cold: the
expression is read, the zone's changes are looked for, the first occurrence is found.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Cron, cron_fields, cron_plan, timeline, zones

MOST_LINES = 40_000
MOST_BYTES = 64 * 1024
TZ = "Africa/Casablanca"  # four changes a year
CACHES = [
    cache for module in (cron_fields, cron_plan, timeline, zones) for cache in vars(module).values()
    if hasattr(cache, "cache_clear")
]  # fmt: skip


def cold(run: Callable[[], object]) -> None:
    for cache in CACHES:
        cache.cache_clear()
    run()


def lines(run: Callable[[], object]) -> int:
    count = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        cold(run)
    finally:
        sys.settrace(before)
    return count


def peak_bytes(run: Callable[[], object]) -> int:
    cold(run)  # what is imported or compiled on first use is not of the expression
    tracemalloc.start()
    try:
        cold(run)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("expression", "day_match", "after"),
    [
        ("0 0 29 2 1", "and", "2072-03-01"),  # forty years of nothing, over 2100
        ("* * * 29 2 1", "and", "2072-03-01"),
        ("0 0 1 1 6#1", "and", "2026-01-02"),
        ("59 59 23 31 12 0L", "and", "2023-12-31"),
        ("0 0 L 2 1#5", "and", "2026-01-01"),
        ("0 0 LW 2 6L", "and", "2026-01-01"),  # never
        ("0 0 30 2 *", "or", "2026-01-01"),  # never
        ("* * * * * *", "or", "2026-03-08"),
        ("0-59 0-59 0-23 1-31 1-12 0-6", "or", "2026-03-08"),
        ("0-59 0-59 2 * * *", "or", "2026-03-29"),
        (",".join(map(str, range(60))) + " * * * *", "or", "2026-01-01"),
        (f"{'0,' * 120}0 * * * *", "or", "2026-01-01"),
        ("0 0 31 12 *", "or", "9998-12-31"),
        ("H H H H H *", "or", "0001-02-01"),
        ("*" * 256, "or", "2026-01-01"),  # refused
        ("9" * 10_000, "or", "2026-01-01"),  # refused
    ],
    ids=lambda value: value[:24],
)
def test_no_expression_costs_more_than_a_bounded_number_of_steps_and_bytes(
    expression: str, day_match: str, after: str
) -> None:
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)

    def run() -> object:
        try:
            return Cron(expression, TZ, day_match=day_match).next_after(moment)  # type: ignore[arg-type]
        except InvalidField as refusal:
            return refusal.field

    assert 0 < lines(run) < MOST_LINES
    assert peak_bytes(run) < MOST_BYTES
