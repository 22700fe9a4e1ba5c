"""Arguments that cannot be are refused however a job is made or changed, in one sentence, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from scheduling.core.definition import JobDefinition
from scheduling.core.errors import InvalidField
from scheduling.core.payload import PAYLOAD_LIMIT
from scheduling.models import Job

pytestmark = pytest.mark.django_db

AT = datetime(2090, 1, 1, tzinfo=UTC)
TOO_LARGE = ["x" * PAYLOAD_LIMIT]


def declared_before(**said: Any) -> None:
    Job.objects.declare("t", name="report", cron="@daily")
    Job.objects.declare("t", name="report", cron="@daily", **said)


def saved(**said: Any) -> None:
    job = Job.objects.cron("t", "@daily", name="report")
    for name, value in said.items():
        setattr(job, name, value)
    job.save()


def saved_in_part(**said: Any) -> None:
    job = Job.objects.cron("t", "@daily", name="report")
    for name, value in said.items():
        setattr(job, name, value)
    job.save(update_fields=list(said))


DEFAULTS = {"tenant_id": 1, "task": "t", "cron": "@daily"}
WAYS: list[Callable[..., Any]] = [
    lambda **said: Job.objects.cron("t", "@daily", **said),
    lambda **said: Job.objects.every("t", timedelta(hours=1), **said),
    lambda **said: Job.objects.once("t", AT, **said),
    lambda **said: Job.objects.rrule("t", "FREQ=DAILY", dtstart=AT, **said),
    lambda **said: Job.objects.declare("t", name="report", cron="@daily", **said),
    declared_before,
    saved,
    saved_in_part,
    lambda **said: Job.objects.create(tenant_id=1, task="t", cron="@daily", **said),
    lambda **said: Job.objects.bulk_create([Job(tenant_id=1, task="t", cron="@daily", **said)]),
    lambda **said: Job.objects.copy(JobDefinition.cron_job("t", "@daily", **said) for _ in range(1)),
    lambda **said: Job.objects.update_or_create(name="report", defaults=DEFAULTS | said),
]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
@pytest.mark.parametrize(
    ("field", "value"),
    [("args", TOO_LARGE), ("kwargs", {"when": AT}), ("kwargs", {"a": {1: 2}}), ("args", ["\x00"])],
    ids=["large", "datetime", "key", "NUL"],
)
def test_every_way_refuses(way: Callable[..., Any], field: str, value: Any) -> None:
    with pytest.raises(InvalidField) as refused, transaction.atomic():
        way(**{field: value})
    assert refused.value.field == field
    assert not Job.objects.exclude(args=[], kwargs={}).exists()
