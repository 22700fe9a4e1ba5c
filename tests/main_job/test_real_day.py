"""Hours of 1,335 real periodic jobs of 66 tenants, in seconds: what is due is fired once, and nothing else.

Uses ../shared/data/prow-periodics.jsonl; skipped where that is absent.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection

from project.demo.models import Effect
from scheduling.models import Fire, Job, JobClock, JobRun, Shard
from scheduling.services.import_jobs import import_jobs
from tests.conftest import Spawn
from tests.main_job.minute_scan import day, occurrences
from tests.processes import PATIENCE_S, eventually

JOBS = Path(__file__).resolve().parents[3] / "shared/data/prow-periodics.jsonl"
FROM = day("2026-06-01")  # a Monday, and the first of a month
HOURS = {"rabbitmq": 5, "redis": 2}  # 1,383 occurrences, and 508: another broker changes nothing of what is due
NEVER = 2  # lines with a 30 or 31 February: refused
SPEED = 3000.0

pytestmark = [
    pytest.mark.main_job,
    pytest.mark.processes,
    pytest.mark.timeout(600),  # the workers take their time on a busy machine; what is counted does not depend on it
    pytest.mark.skipif(not JOBS.exists(), reason=f"{JOBS.name} is not there"),
    pytest.mark.django_db(transaction=True),
]


@pytest.mark.parametrize("broker", HOURS)
def test_every_occurrence_of_a_real_schedule_fires_and_runs_exactly_once(
    broker: str, request: pytest.FixtureRequest, spawn: Spawn
) -> None:
    url = request.getfixturevalue(f"{broker}_url")
    services = {"AMQP_URL": url, "REDIS_URL": ""} if broker == "rabbitmq" else {"AMQP_URL": "", "REDIS_URL": url}
    lasts = timedelta(hours=HOURS[broker])
    until = FROM + lasts
    JobClock.objects.create(job_origin=FROM, speed=SPEED)
    import_jobs(JOBS.read_bytes().splitlines(), default_task="project.demo.tasks.effect")
    for number in (1, 2):
        spawn("manage.py", "scheduler", "--node-id", f"node-{number}", ready="is running", **services)
    spawn("celery", "-A", "project", "worker", "-c", "2", "-l", "INFO", ready="ready.", **services)
    eventually(lambda: not Shard.objects.filter(owner=None).exists())
    start_clock(stops_after_s=lasts.total_seconds() / SPEED)

    expected = occurrences(JOBS, after=FROM, until=until)
    fires = Fire.objects.filter(scheduled_for__lte=until)
    finished = fires.filter(state="succeeded")
    eventually(lambda: finished.count() >= len(expected), timeout_s=5 * PATIENCE_S, interval_s=0.5)

    assert Counter(fires.values_list("job__tenant__slug", "job__name", "scheduled_for")) == Counter(expected)
    assert set(fires.values_list("state", flat=True)) == {"succeeded"}
    effects = Counter(Effect.objects.values_list("fire_id", flat=True))
    assert set(effects.values()) == {1}
    assert len(effects) == JobRun.objects.count() == len(expected)
    assert Job.objects.count() == 1335 - NEVER


def start_clock(*, stops_after_s: float) -> None:
    """Job time runs for so long, and then stands still."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduling_jobclock SET real_origin = clock_timestamp() + interval '1.5 s', stops_after_s = %s",
            [stops_after_s],
        )
