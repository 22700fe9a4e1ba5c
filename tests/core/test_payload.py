"""Arguments of jobs: what is accepted comes back as it was, what is refused is refused by a sentence that helps."""

from __future__ import annotations

import json
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum, StrEnum
from math import inf, nan
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.fire import UNSENDABLE
from scheduling.core.judging import judge_fires
from scheduling.core.payload import (
    DEPTH_LIMIT,
    DIGITS_LIMIT,
    PAYLOAD_LIMIT,
    checked_json,
    payload_texts,
    unlimited,
    unsendable,
)
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, every, make_due, make_fire, make_work
from tests.core.plans import plan, seconds

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(10**40), 10**40) | st.floats(-9e15, 9e15)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


ODD = st.none() | st.text() | st.floats() | st.binary()


def nested(depth: int) -> list[Any]:
    """So many lists inside one another."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@settings(max_examples=50)
@given(st.lists(JSON, max_size=3), st.dictionaries(TEXTS, JSON, max_size=3))
def test_what_is_json_is_accepted_and_can_be_sent(args: list[Any], kwargs: dict[str, Any]) -> None:
    texts = payload_texts(args, kwargs)
    assert [json.loads(text) for text in texts] == [args, kwargs]
    assert all(text.isascii() for text in texts)
    assert unsendable(*texts) == ""


@settings(max_examples=50)
@given(st.recursive(ODD, lambda inner: st.lists(inner) | st.dictionaries(ODD, inner), max_leaves=8))
def test_whatever_is_given_is_either_accepted_or_refused_by_name(value: Any) -> None:
    with suppress(InvalidField):
        text, longer = checked_json("args", [value])
        assert json.loads(text) == [value]
        assert longer >= 0


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def test_subclasses_of_what_json_has_are_what_they_are_and_tuples_become_lists() -> None:
    value = OrderedDict(a=Colour.RED, b=Level.HIGH, c=(1, (2,)))
    assert json.loads(payload_texts([], value)[1]) == {"a": "red", "b": 3, "c": [1, [2]]}


ROW = SimpleNamespace(pk=7)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([1, {"when": datetime(2026, 1, 1, tzinfo=UTC)}], r"args[1]['when'] is of type datetime"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "give text, as its isoformat()"),
        ([date(2026, 1, 1)], "is of type date"),
        ([timedelta(1)], "total_seconds()"),
        ([Decimal("0.1")], "a float might be another number"),
        ([UUID(int=1)], "as str() of it"),
        ([b"x"], "as base64"),
        ([{1}], "give a list"),
        ([ROW], "give its primary key"),
        ([object()], "args[0] is of type object, which JSON does not have"),
        ([nan], "is nan, which JSON does not have"),
        ([-inf], "is -inf"),
        ([1e16], "Postgres keeps as an integer"),
        ([10**DIGITS_LIMIT], "is an integer of more than 4300 digits"),
        ([{"a": {1: 2}}], "args[0]['a'] has the key 1, which is no text"),
        ([{None: 2}], "has the key None"),
        (["a\x00b"], "contains a NUL character"),
        ([{"\x00": 1}], "contains a NUL character"),
        (["\ud800"], "contains half of a surrogate pair"),
        (nested(DEPTH_LIMIT + 1), f"is nested in more than {DEPTH_LIMIT} arrays"),
        (nested(50_000), f"is nested in more than {DEPTH_LIMIT} arrays"),
        (["x" * PAYLOAD_LIMIT], "take 262150 bytes of JSON, more than 262144; keep what is large"),
    ],
)
def test_a_refusal_says_which_value_and_what_to_give(args: list[Any], problem: str) -> None:
    with pytest.raises(InvalidField) as refused:
        payload_texts(args, {})
    assert refused.value.field == "args"
    assert problem in refused.value.problem


def test_what_holds_itself_is_refused() -> None:
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(InvalidField, match="is nested"):
        payload_texts(itself, {})


def test_a_refusal_shows_no_secret() -> None:
    with pytest.raises(InvalidField) as refused:
        payload_texts([], {"password": "hunter2", "when": date(2026, 1, 1)})
    assert "hunter2" not in str(refused.value)


def test_the_limit_counts_both_and_what_postgres_makes_of_small_numbers() -> None:
    half = "x" * (PAYLOAD_LIMIT // 2 - 4)
    payload_texts([half], {"": half[:-4]})
    with pytest.raises(InvalidField, match="^kwargs"):
        payload_texts([half], {"": half})
    payload_texts([1e-5] * 10_000, {})
    with pytest.raises(InvalidField, match="more than 262144"):
        payload_texts([1e-300] * 1_000, {})  # 0.000…1, each of 302 characters


def test_the_deepest_that_is_accepted_can_be_sent() -> None:
    args, _ = payload_texts(nested(DEPTH_LIMIT), {})
    assert unsendable(args, "{}") == ""


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ('["' + "x" * PAYLOAD_LIMIT + '"]', "arguments take too many bytes of JSON, more than 262144"),
        ('["' + "x" * PAYLOAD_LIMIT, "arguments take too many bytes of JSON, more than 262144"),  # cut off
        ("[" * 65 + "]" * 65, "is nested in more than 64 arrays"),
        ("[" * 100_000 + "]" * 100_000, "cannot be read"),
        (f"[{'1' * (DIGITS_LIMIT + 1)}]", "cannot be read"),
    ],
)
def test_a_row_that_cannot_be_sent_says_why(args: str, problem: str) -> None:
    assert problem in unsendable(args, "{}")


def test_brackets_and_digits_within_texts_are_no_reason() -> None:
    assert unsendable(json.dumps(["[" * 100 + "1" * 5000]), "{}") == ""
    assert unsendable(json.dumps([[] for _ in range(1000)]), "{}") == ""


def test_limits_of_runs_that_no_worker_could_keep_are_told() -> None:
    assert unlimited(None, 60.0) == ""
    assert unlimited(None, nan).startswith("hard_timeout_s nan")
    assert unlimited(inf, 60.0).startswith("soft_timeout_s inf")


# -- what a node does about such a row -------------------------------------------------------------------------------

BROKEN = make_work(1, problem="arguments take too much")


def test_each_occurrence_is_skipped_with_the_reason_and_the_schedule_goes_on() -> None:
    planned = plan(make_due(BROKEN, NOON, schedule=every(10, anchor=NOON), next_fire_at=NOON), until_s=25)
    assert seconds(planned) == [(0, "skipped unsendable"), (10, "skipped unsendable"), (20, "skipped unsendable")]
    assert planned.problem == "arguments take too much"
    assert (planned.next_scheduled_for, planned.fired) == (NOON + SECOND * 30, 0)


def test_a_row_that_was_mended_fires_and_has_no_problem() -> None:
    mended = replace(BROKEN, problem="")
    planned = plan(make_due(mended, NOON, schedule=every(10, anchor=NOON), next_fire_at=NOON), until_s=5)
    assert (seconds(planned), planned.problem) == ([(0, "claimed")], "")


def test_what_was_claimed_before_is_skipped_and_what_began_or_was_asked_for_waits_until_it_is_mended() -> None:
    clock = ManualClock()
    fires = [
        make_fire(BROKEN, seq=1),
        make_fire(BROKEN, NOON + SECOND, seq=2, attempt=1),
        make_fire(BROKEN, NOON, seq=3, origin="manual:1"),
        make_fire(make_work(2), seq=4),
    ]
    publish, settlements = judge_fires(fires, clock)
    assert publish == fires[3:]
    assert [(s.state, s.reason) for s in settlements] == [
        ("skipped", UNSENDABLE),
        ("parked", UNSENDABLE),
        ("parked", UNSENDABLE),
    ]
    assert settlements[1].wake_at == NOON + SECOND * 60
