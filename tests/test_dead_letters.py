"""What the broker gives up comes home: from a job's row, through a node, a worker and RabbitMQ, to its dead letter."""

from __future__ import annotations

import pytest

from scheduling.failpoints import VARIABLE, Point
from scheduling.models import Job, JobClock, JobRun
from scheduling.models.dead_letter import DeadLetter
from tests.conftest import Spawn
from tests.processes import eventually

pytestmark = [pytest.mark.processes, pytest.mark.rabbitmq, pytest.mark.django_db(transaction=True)]


def test_an_unknown_task_and_one_that_kills_its_worker_before_it_has_a_lease_end_as_dead_letters(
    spawn: Spawn, rabbitmq_url: str
) -> None:
    kills = {VARIABLE: f"{Point.ACQUIRE_BEFORE}=kill"}
    worker = spawn("celery", "-A", "project", "worker", "-c", "1", "--without-mingle", AMQP_URL=rabbitmq_url, **kills)
    spawn("manage.py", "scheduler", "--node-id", "node", ready="is running", AMQP_URL=rabbitmq_url, FAIRBEAT_STOP="3")
    now = JobClock.objects.now()
    unknown = Job.objects.once("tests.no.such.task", now)
    poison = Job.objects.once("project.demo.tasks.effect", now, max_attempts=1)

    eventually(lambda: DeadLetter.objects.count() == 2)

    letters = {letter.job_id: (letter.reason, letter.attempts) for letter in DeadLetter.objects.all()}
    assert letters == {unknown.id: ("unknown_task", 0), poison.id: ("rejected", 1)}
    assert list(JobRun.objects.values_list("job_id", "state")) == [(poison.id, "lost")]
    assert worker.process.poll() is None
