"""Arguments that only ``update()`` and SQL can write: their job is put aside, whatever store it is in, and its shard
goes on; mended by whatever way, it fires again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduling.core.definition import JobDefinition
from scheduling.core.fire import Work
from scheduling.core.payload import PAYLOAD_LIMIT
from scheduling.models import Fire, Job
from scheduling.store.bucketed import BucketedStore
from scheduling.store.connection import connector
from scheduling.store.polling import PollingStore
from scheduling.store.postgres import PostgresStore
from scheduling.store.rows import work_of
from scheduling.store.statements import statements
from scheduling.testing.clock import ManualClock
from tests.core.test_payload import JSON, TEXTS
from tests.fires import NOON
from tests.store.owner import Owner

pytestmark = pytest.mark.usefixtures("committed_db")

SECOND = timedelta(seconds=1)
Look = Callable[[datetime], None]
TOO_LARGE = {"a": "x" * PAYLOAD_LIMIT}
TOO_LARGE_TO_ESCAPE = {"a": "é" * (PAYLOAD_LIMIT // 4)}  # six characters each in a message
TOO_DEEP = {"a": json.loads("[" * 200 + "]" * 200)}


@pytest.fixture(params=["indexed", "bucketed", "polling"])
def look(request: pytest.FixtureRequest) -> Iterator[Look]:
    """What a node of each stop does at an instant."""
    if request.param == "polling":
        connect = connector(connection.get_connection_params(), name="poller")
        store = PollingStore(connect, shards=64, grace=timedelta(seconds=5), confirm_s=30)
        yield lambda now: void(store.poll(ManualClock(now), limit=100))
        store.close()
        return
    owner = Owner(NOON, make=BucketedStore if request.param == "bucketed" else PostgresStore)
    yield lambda now: void(owner.look(now))
    owner.store.close()


def void(_: object) -> None: ...


@pytest.fixture
def jobs(committed_db: None) -> list[Job]:
    """Four jobs of one shard, due at noon and each ten seconds from then on."""
    made = [Job.objects.every("t", SECOND * 10, anchor=NOON, kwargs={"a": 1}) for _ in range(4)]
    Job.objects.update(
        shard_id=1, next_scheduled_for=NOON, next_fire_at=NOON, schedule_changed_at=NOON - timedelta(days=1)
    )
    return made


def states(job: Job) -> list[str]:
    fires = Fire.objects.filter(job=job).order_by("scheduled_for")
    return [f"{fire.state} {fire.reason}".strip() for fire in fires]


def problem(job: Job) -> str:
    return Job.objects.values_list("problem", flat=True).get(pk=job.pk)


def test_its_occurrences_are_skipped_until_it_is_mended_and_the_others_fire(look: Look, jobs: list[Job]) -> None:
    *all_broken, other = jobs
    look(NOON)
    for broken, kwargs in zip(all_broken, (TOO_LARGE, TOO_LARGE_TO_ESCAPE, TOO_DEEP), strict=True):
        Job.objects.filter(pk=broken.pk).update(kwargs=kwargs)
    look(NOON + SECOND * 10)
    look(NOON + SECOND * 20)
    for broken in all_broken:
        assert states(broken) == ["claimed", "skipped unsendable", "skipped unsendable"]
        assert problem(broken).startswith(("arguments take too many bytes", "kwargs is nested"))
    assert (states(other), problem(other)) == (["claimed"] * 3, "")

    Job.objects.update(kwargs={"a": 2})
    look(NOON + SECOND * 30)
    look(NOON + SECOND * 40)
    for broken in all_broken:
        assert (states(broken)[3:], problem(broken)) == (["claimed", "claimed"], "")


def test_large_arguments_that_may_be_are_sent_and_kept_by_no_node(jobs: list[Job]) -> None:
    large, small, *_ = jobs
    Job.objects.filter(pk=large.pk).update(kwargs={"a": "x" * 100_000})
    owner = Owner(NOON, make=BucketedStore)
    for tick in (0, 10, 20, 30):
        owner.look(NOON + SECOND * tick)
    assert states(large) == states(small) == ["claimed"] * 4
    assert isinstance(owner.store, BucketedStore)
    assert large.pk not in owner.store._entries._jobs
    assert small.pk in owner.store._entries._jobs
    owner.store.close()


def test_limits_that_are_no_numbers_put_their_job_aside_too(look: Look, jobs: list[Job]) -> None:
    broken, other, *_ = jobs
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_job SET hard_timeout_s = 'NaN' WHERE id = %s", [broken.pk])
    look(NOON)
    assert (states(broken), states(other)) == (["skipped unsendable"], ["claimed"])
    assert problem(broken).startswith("hard_timeout_s nan")


def test_integers_that_python_does_not_read_stop_no_shard(look: Look, jobs: list[Job]) -> None:
    broken, other, *_ = jobs
    with connection.cursor() as cursor:
        text = f'{{"é": {"1" * 5000}}}'
        cursor.execute("UPDATE scheduling_job SET kwargs = %s::jsonb WHERE id = %s", [text, broken.pk])
    look(NOON)
    with connection.cursor() as cursor:
        cursor.execute("SELECT state, reason FROM scheduling_fire WHERE job_id = %s", [broken.pk])
        assert cursor.fetchall() == [("skipped", "unsendable")]
    assert states(other) == ["claimed"]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(JSON, max_size=3), st.dictionaries(TEXTS, JSON, max_size=3))
def test_what_is_accepted_comes_out_of_postgres_as_it_was(args: list[Any], kwargs: dict[str, Any]) -> None:
    saved = Job.objects.cron("t", "0 6 * * *", args=args, kwargs=kwargs)
    Job.objects.copy([JobDefinition.cron_job("t", "0 6 * * *", name="copied", args=args, kwargs=kwargs)])
    works = read_works()
    Job.objects.all().delete()
    assert [work.problem for work in works] == ["", ""], saved
    for work in works:
        found = [json.loads(work.args), json.loads(work.kwargs)]
        assert found == [args, kwargs]
        assert types(found) == types([args, kwargs])


def read_works() -> list[Work]:
    """Of all jobs, as nodes read them."""
    columns = statements("schedule")["work"]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM scheduling_job j JOIN fairness_tenant t ON t.id = j.tenant_id")
        return [work_of(row) for row in cursor.fetchall()]


def types(value: Any) -> Any:
    """Its shape: an integer is no float, and True no 1."""
    if isinstance(value, list):
        return [types(inner) for inner in value]
    if isinstance(value, dict):
        return {key: types(inner) for key, inner in value.items()}
    return type(value)
