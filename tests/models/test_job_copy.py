"""Jobs that are copied are the jobs that are saved: each kind and policy, whatever a person writes, however many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition, Kind, ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.models import Calendar, Job
from scheduling.models.job_copy import CHUNK
from scheduling.models.job_planning import first_occurrence, shard_count

pytestmark = pytest.mark.django_db

PARIS = ZoneInfo("Europe/Paris")
ANCHOR = datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)
HOUR = timedelta(hours=1)
OWN = {
    "id",
    "tenant_id",
    "created_at",
    "updated_at",
    "shard_id",
    "schedule_changed_at",
    "next_scheduled_for",
    "next_fire_at",
}


def cron(name: str, expression: str = "0 9 * * *", **options: Any) -> JobDefinition:
    return JobDefinition.cron_job("shop.charge", expression, name=name, **options)


def every_kind_and_policy() -> list[JobDefinition]:
    calendar = Calendar.objects.create(name="holidays")
    text = "tab\tnew\nline\rback\\slash \\N \\. 'quoted' \"twice\" é 日本 \U0001f600"
    return [
        cron("plain"),
        cron("the same words"),
        cron("words", tz="America/New_York", day_match="and", gap="skip", fold="both", jitter=HOUR),
        cron("bounded", start_at=ANCHOR, end_at=datetime(2126, 1, 1, tzinfo=PARIS)),
        cron("over", end_at=ANCHOR),
        cron(text, description=text, args=[text, None, 1.5, [True]], kwargs={text: {"deep": text}, "no": []}),
        JobDefinition(task=text, schedule=ScheduleFields(Kind.CRON, cron="@daily", every=HOUR, at=ANCHOR), name="odd"),
        JobDefinition.interval_job("t", timedelta(days=40, seconds=5, microseconds=7), anchor=ANCHOR, name="interval"),
        JobDefinition.once_job("t", ANCHOR, name="passed", jitter=HOUR),
        JobDefinition.once_job("t", datetime(2126, 10, 27, 2, 30, tzinfo=PARIS), name="first of a fold"),
        JobDefinition.once_job("t", datetime(2126, 10, 27, 2, 30, tzinfo=PARIS, fold=1), name="second of a fold"),
        JobDefinition.rrule_job("t", "FREQ=WEEKLY;BYDAY=MO,WE", dtstart=ANCHOR, tz="Asia/Tokyo", name="rrule"),
        cron(
            "policies", lane="transactional", calendar_id=calendar.pk, max_runs=7, misfire="all", misfire_grace_s=2,
            catch_up_limit=3, catch_up_window=HOUR * 30, overlap="buffer_all", buffer_limit=9, max_attempts=1,
            retry_base=timedelta(0), retry_cap=HOUR, soft_timeout_s=0.5, hard_timeout_s=1, expires_after=HOUR,
        ),
        *[cron(f"spread {n}", "H H * * *") for n in range(8)],
    ]  # fmt: skip


def test_a_copied_job_is_the_job_that_would_be_saved() -> None:
    definitions = every_kind_and_policy()
    copied, saved = Tenant.objects.create(slug="copied"), Tenant.objects.create(slug="saved")
    assert Job.objects.copy(definitions, tenant=copied) == len(definitions)
    for definition in definitions:
        job, twin = Job.objects.get(tenant=copied, name=definition.name), Job.objects.define(definition, tenant=saved)
        twin.refresh_from_db()
        columns = [field.attname for field in Job._meta.concrete_fields if field.attname not in OWN]
        assert [getattr(job, name) for name in columns] == [getattr(twin, name) for name in columns]
        assert job.created_at == job.updated_at == job.schedule_changed_at
        first = first_occurrence(job.schedule, job.id, job.jitter, now=job.schedule_changed_at, shards=shard_count())
        assert (job.shard_id, job.next_scheduled_for, job.next_fire_at) == first
    fold = Job.objects.filter(tenant=copied, name__endswith="fold").order_by("name").values_list("at", flat=True)
    assert [at and at.hour for at in fold] == [0, 1]
    spread = Job.objects.filter(tenant=copied, name__startswith="spread").values_list("next_fire_at", flat=True)
    assert len(set(spread)) > 1


def test_jobs_are_copied_as_they_come_in_as_many_writes_as_it_takes() -> None:
    count = 2 * CHUNK + 1
    assert Job.objects.copy(cron(f"job-{n}", f"{n % 60} * * * *") for n in range(count)) == count
    assert Job.objects.count() == count
    assert Job.objects.copy([]) == 0


def test_what_a_column_cannot_hold_is_refused_by_a_sentence_and_nothing_is_copied() -> None:
    naive = ScheduleFields(Kind.CRON, cron="@daily", at=datetime(2026, 1, 1))  # noqa: DTZ001
    with (
        pytest.raises(InvalidField, match="^at datetime.datetime\\(2026, 1, 1, 0, 0\\): cannot be stored"),
        transaction.atomic(),
    ):
        Job.objects.copy([cron("good"), JobDefinition(task="t", schedule=naive)])
    with pytest.raises(InvalidField, match="^name 'bad\\\\x00': contains a NUL"), transaction.atomic():
        Job.objects.copy(cron(name) for name in ("good", "bad\x00"))
    assert not Job.objects.exists()
