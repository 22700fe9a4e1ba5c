"""What a person says of a job is refused by a sentence that names the field."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from scheduling.core.definition import JobDefinition, Kind, ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Lane, OverlapPolicy
from scheduling.core.payload import PAYLOAD_LIMIT

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def cron(**options: Any) -> JobDefinition:
    return JobDefinition.cron_job("shop.charge", "0 9 * * *", **options)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("args", {"args": [object()]}),
        ("args", {"args": "text"}),
        ("args", {"args": [float("nan")]}),
        ("args", {"args": ["\x00"]}),
        ("args", {"args": ["\ud800"]}),
        ("args", {"args": ["x" * PAYLOAD_LIMIT]}),
        ("kwargs", {"kwargs": {1: 2}}),
        ("kwargs", {"kwargs": {"when": datetime(2026, 1, 1, tzinfo=UTC)}}),
        ("kwargs", {"kwargs": {"deep": {"\x00": 1}}}),
        ("name", {"name": "x" * 201}),
        ("name", {"name": "half \udc00"}),
        ("name", {"name": "a\x00b"}),
        ("description", {"description": "a\x00b"}),
        ("calendar_id", {"calendar_id": "holidays"}),
        ("description", {"description": 3}),
        ("tz", {"tz": "Mars/Base"}),
        ("tz", {"tz": ["Europe/Paris"]}),
        ("lane", {"lane": "express"}),
        ("misfire", {"misfire": "never"}),
        ("overlap", {"overlap": "cancel"}),
        ("jitter", {"jitter": timedelta(seconds=-1)}),
        ("jitter", {"jitter": 5}),
        ("max_attempts", {"max_attempts": 0}),
        ("max_attempts", {"max_attempts": 1.5}),
        ("max_attempts", {"max_attempts": True}),
        ("max_runs", {"max_runs": 0}),
        ("catch_up_limit", {"catch_up_limit": 2**31}),
        ("misfire_grace_s", {"misfire_grace_s": 0}),
        ("hard_timeout_s", {"hard_timeout_s": float("inf")}),
        ("soft_timeout_s", {"soft_timeout_s": 20.0, "hard_timeout_s": 10.0}),
        ("retry_cap", {"retry_base": timedelta(hours=2)}),
        ("expires_after", {"expires_after": timedelta(0)}),
        ("end_at", {"start_at": NOW, "end_at": NOW - timedelta(days=1)}),
        ("start_at", {"start_at": datetime(2026, 1, 1)}),  # noqa: DTZ001
        ("gap", {"gap": "jump"}),
        ("gap", {"gap": ["skip"]}),
        ("fold", {"fold": "third"}),
        ("day_match", {"day_match": "xor"}),
        ("retries", {"retries": 3}),
    ],
)
def test_a_refusal_names_the_field(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as refused:
        cron(**options)
    assert refused.value.field == field
    assert str(refused.value).startswith(field)


@pytest.mark.parametrize("task", ["", "  ", "x" * 256, "a\x00b", None])
def test_a_task_needs_a_name(task: Any) -> None:
    with pytest.raises(InvalidField, match="^task"):
        JobDefinition.cron_job(task, "* * * * *")


def test_naive_datetimes_are_refused() -> None:
    with pytest.raises(InvalidField, match="^at "):
        JobDefinition.once_job("shop.charge", datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidField, match="^anchor "):
        JobDefinition.interval_job("shop.charge", timedelta(hours=1), anchor=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_kind_without_its_field_is_refused() -> None:
    with pytest.raises(InvalidField, match="^every None"):
        JobDefinition(task="t", schedule=ScheduleFields(kind=Kind.INTERVAL, anchor=NOW))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidField, match="^kind 'hourly'"):
        JobDefinition(task="t", schedule=ScheduleFields(kind="hourly", cron="* * * * *"))  # type: ignore[arg-type]


def test_an_unknown_zone_is_refused_for_every_kind() -> None:
    for fields in (
        ScheduleFields(Kind.ONCE, at=NOW, tz="No/Where"),
        ScheduleFields(Kind.CRON, cron="* * * * *", tz="X"),
    ):
        with pytest.raises(InvalidField, match="^tz"):
            JobDefinition(task="t", schedule=fields)


def test_a_backslash_that_only_looks_like_an_escape_is_text() -> None:
    assert cron(args=["\\u0000"]).args_json == '["\\\\u0000"]'


def test_words_of_policies_become_their_members() -> None:
    definition = cron(lane="transactional", overlap="buffer_all")
    assert definition.lane is Lane.TRANSACTIONAL
    assert definition.overlap is OverlapPolicy.BUFFER_ALL


def test_what_is_not_said_is_the_default_and_two_that_say_the_same_are_equal() -> None:
    assert cron(max_attempts=3, kwargs={}) == cron()
    assert cron() != cron(max_attempts=4)
    assert cron().columns() == cron(args=[], fold="first", expires_after=None).columns()
    assert replace(cron(name="a"), name="b") == cron(name="b")
    with pytest.raises(InvalidField, match="^max_attempts 3.0"):
        cron(max_attempts=3.0)  # equal to the default


def test_h_is_spread_by_the_identity_of_the_job() -> None:
    fields = ScheduleFields(Kind.CRON, cron="H * * * *")
    minutes = {fields.build(UUID(int=n)).next_after(NOW).minute for n in range(40)}  # type: ignore[union-attr]
    assert len(minutes) > 10
    assert fields.build(UUID(int=1)) == fields.build(UUID(int=1))


def test_times_in_other_zones_are_the_same_instants() -> None:
    at = datetime(2026, 3, 2, 13, tzinfo=ZoneInfo("Europe/Paris"))
    assert JobDefinition.once_job("t", at).schedule.build().next_after(NOW - timedelta(seconds=1)) == NOW
