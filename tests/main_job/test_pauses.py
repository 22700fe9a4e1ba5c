"""Pauses, manual runs and backfills end to end: what people ask for, done by a node."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from project.demo.models import Effect
from scheduling.models import Fire, Job, JobClock, JobRun
from scheduling.services.backfill import backfill
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.services.run_now import run_now
from tests.conftest import Spawn
from tests.processes import eventually

TASK = "project.demo.tasks.effect"
NOWHERE = {"AMQP_URL": "", "CELERY_BROKER_URL": "amqp://127.0.0.1:1//", "REDIS_URL": "redis://127.0.0.1:1/0"}

pytestmark = [pytest.mark.main_job, pytest.mark.django_db(transaction=True)]


def effects(job: Job, *, origin: str = "") -> set[UUID]:
    """The fires of this origin that have had their effect."""
    ran = set(Effect.objects.filter(job_id=job.pk).values_list("fire_id", flat=True))
    return ran & set(Fire.objects.filter(job=job, origin__startswith=origin).values_list("id", flat=True))


def test_a_node_does_what_people_ask_for_beside_the_schedules(spawn: Spawn) -> None:
    now = JobClock.objects.now()
    paused, ending, filled = (
        Job.objects.every(TASK, timedelta(seconds=1), anchor=now - timedelta(minutes=1), name=name)
        for name in ("paused", "ending", "filled")
    )
    pause([paused, filled], reason="a release", by="anna")
    pause([ending], reason="a release", by="anna", until=now + timedelta(seconds=6), catch_up="latest")
    spawn("manage.py", "scheduler", "--node-id", "lone", ready="took over 64", FAIRBEAT_STOP="1", **NOWHERE)

    [started] = run_now([paused], by="ben")
    done = backfill(
        filled, start=now - timedelta(seconds=30), until=now - timedelta(seconds=26), by="ben", rate_per_s=10
    )
    eventually(lambda: started.fire_id in effects(paused))
    eventually(lambda: len(effects(filled, origin=done.origin)) == done.made == 5)
    assert (len(effects(paused)), len(effects(filled))) == (1, 5)
    runs = list(JobRun.objects.filter(job=filled).order_by("started_at"))
    assert all(one.finished_at <= following.started_at for one, following in pairwise(runs))

    eventually(lambda: len(effects(ending)) >= 3)
    ending.refresh_from_db()
    assert ending.paused_at is None
    ran = Fire.objects.filter(id__in=effects(ending)).order_by("scheduled_for")
    caught_up = [fire for fire in ran if fire.scheduled_for < now + timedelta(seconds=6)]
    assert [(fire.fence, fire.attempt) for fire in caught_up] == [(2, 1)]  # the newest that it had skipped
    assert Fire.objects.filter(job=ending, state="skipped", reason="paused").exists()

    resume([paused], by="ben", catch_up="all")
    eventually(lambda: len(effects(paused)) > 3)
    fired = Fire.objects.filter(job=paused, origin="", id__in=effects(paused)).earliest("scheduled_for")
    assert fired.fence == 2
    assert set(Effect.objects.filter(job_id=paused.pk).values_list("fire_id", flat=True)) == effects(paused)
