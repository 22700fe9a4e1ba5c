"""Ten hours of 1,335 real periodic jobs of 66 tenants, in twelve seconds: what is due is fired once, and nothing else.

Uses ../shared/data/prow-periodics.jsonl; skipped where that is absent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import kombu
import pytest
from django.db import connection

from fairness.queues import QueuePlan
from project.demo.models import Effect
from scheduling.core.fire import Lane
from scheduling.models import Fire, Job, JobClock, JobRun, Shard
from scheduling.services.import_jobs import import_jobs
from tests.conftest import Spawn
from tests.main_job.minute_scan import Due, day, occurrences
from tests.processes import eventually

JOBS = Path(__file__).resolve().parents[3] / "shared/data/prow-periodics.jsonl"
FROM = day("2026-06-01")  # a Monday, and the first of a month
TO = FROM + timedelta(hours=10)
SECONDS = 12
NEVER = 2  # lines with a 30 or 31 February: refused
SPEED = (TO - FROM).total_seconds() / SECONDS

pytestmark = [
    pytest.mark.main_job,
    pytest.mark.timeout(240),  # the workers take their time on a busy machine; what is counted does not depend on it
    pytest.mark.skipif(not JOBS.exists(), reason=f"{JOBS.name} is not there"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(params=["rabbitmq", "redis"])
def broker(request: pytest.FixtureRequest, unique: str) -> Iterator[dict[str, str]]:
    """The environment of processes that use this broker, with queues of their own."""
    url = request.getfixturevalue(f"{request.param}_url")
    is_rabbitmq = request.param == "rabbitmq"
    yield {
        "AMQP_URL": url if is_rabbitmq else "",
        "REDIS_URL": "" if is_rabbitmq else url,
        "FAIRBEAT_QUEUE_PREFIX": unique,
    }
    if is_rabbitmq:
        delete_queues(url, unique)


def delete_queues(url: str, prefix: str) -> None:
    plan = QueuePlan(prefix=prefix)
    tenants = {json.loads(line)["tenant"] for line in JOBS.read_text().splitlines()}
    with kombu.Connection(url) as connection:
        channel: Any = connection.channel()
        for lane in Lane:
            channel.queue_delete(plan.dead_letters(lane).queue)
            for tenant in tenants:
                channel.queue_delete(plan.queue_name(tenant, lane))
        channel.queue_delete(f"{prefix}.default")
        channel.exchange_delete(plan.dead_letters(Lane.BULK).exchange)


def test_every_occurrence_of_a_real_schedule_fires_and_runs_exactly_once(broker: dict[str, str], spawn: Spawn) -> None:
    JobClock.objects.create(job_origin=FROM, speed=SPEED)
    import_jobs(JOBS.read_bytes().splitlines(), default_task="project.demo.tasks.effect")
    for number in (1, 2):
        spawn("manage.py", "scheduler", "--node-id", f"node-{number}", ready="is running", **broker)
    spawn("celery", "-A", "project", "worker", "-c", "2", "-l", "INFO", ready="ready.", **broker)
    eventually(lambda: not Shard.objects.filter(owner=None).exists())
    start_clock()

    expected = occurrences(JOBS, after=FROM, until=TO)
    finished = Fire.objects.filter(state="succeeded", scheduled_for__lte=TO)
    eventually(lambda: finished.count() >= len(expected), timeout_s=SECONDS + 150, interval_s=0.5)

    assert fired() == Counter(expected)
    assert set(Fire.objects.filter(scheduled_for__lte=TO).values_list("state", flat=True)) == {"succeeded"}
    effects = Counter(Effect.objects.values_list("fire_id", flat=True))
    assert set(effects.values()) == {1}
    assert len(effects) == JobRun.objects.count() == len(expected)
    assert Job.objects.count() == 1335 - NEVER


def start_clock() -> None:
    """Job time runs for SECONDS, and then stands still at TO."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduling_jobclock SET real_origin = clock_timestamp() + interval '1.5 s', stops_after_s = %s",
            [SECONDS],
        )


def fired() -> Counter[Due]:
    rows = Fire.objects.filter(scheduled_for__lte=TO).values_list("job__tenant__slug", "job__name", "scheduled_for")
    return Counter(rows)
