"""Real beats, as a person starts them: `celery -A project beat -S fairbeat`."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import Any

import pytest
from celery import Celery
from kombu import Connection

from project.demo.models import Effect
from scheduling.models import Fire, Job, Node, Shard
from tests.conftest import Spawn
from tests.processes import PATIENCE_S, eventually

TASK = "project.demo.tasks.effect"
EVERY_SECOND = "beat.schedule=(dict)" + json.dumps({"each-second": {"task": TASK, "schedule": 1}})
BEAT = ("-A", "project", "beat", "-l", "INFO", "-S")
NOWHERE = {"AMQP_URL": "", "CELERY_BROKER_URL": "amqp://127.0.0.1:1//", "REDIS_URL": "redis://127.0.0.1:1/0"}

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


@pytest.mark.rabbitmq
def test_two_beats_fire_an_entry_once_a_slot_beside_a_worker_that_refuses_to_be_one(
    spawn: Spawn, rabbitmq_url: str, unique: str
) -> None:
    broker = {"AMQP_URL": rabbitmq_url, "FAIRBEAT_STOP": "3"}
    remote = ("--enable-remote-control", "-n", f"{unique}@here")
    first = spawn("celery", *BEAT, "fairbeat", *remote, EVERY_SECOND, **broker)
    path = "scheduling.beat.scheduler:FairbeatScheduler"
    second = spawn("celery", *BEAT, path, EVERY_SECOND, **broker)
    worker = ("-A", "project", "worker", "--pool=solo", "-l", "INFO", "-B", "--scheduler", "fairbeat")
    embedded = spawn("celery", *worker, **broker)
    for beat in (first, second):
        beat.wait_for_line("is running")
    eventually(lambda: Node.objects.count() == 2 and not Shard.objects.filter(owner=None))

    embedded.wait_for_line("worker -B is refused")
    eventually(lambda: Effect.objects.count() >= 3)
    assert pong(rabbitmq_url, f"{unique}@here") == [{f"{unique}@here": {"ok": "pong"}}]

    first.send_signal(signal.SIGTERM)
    assert first.wait() == 0
    ran = Effect.objects.count()
    eventually(lambda: Effect.objects.count() >= ran + 2)
    job = Job.objects.get()
    assert (job.name, job.origin) == ("each-second", "code")
    assert set(Counter(Effect.objects.values_list("fire_id", flat=True)).values()) == {1}
    slots = list(Fire.objects.order_by("scheduled_for").values_list("scheduled_for", "covers"))
    assert sum(covers for _, covers in slots) == (slots[-1][0] - slots[0][0]).total_seconds() + 1

    second.send_signal(signal.SIGTERM)
    embedded.send_signal(signal.SIGTERM)
    assert (second.wait(), embedded.wait()) == (0, 0)
    assert "Traceback" not in first.output + second.output + embedded.output


def pong(url: str, name: str) -> Any:
    """What `celery inspect ping` is told."""
    app: Celery[Any] = Celery("asks", broker=url, set_as_current=False)
    with Connection(url) as connection:
        return app.control.ping(destination=[name], timeout=PATIENCE_S, limit=1, connection=connection)


def test_stop_1_runs_the_tasks_in_beat_itself_and_a_second_one_ends_the_first(spawn: Spawn) -> None:
    alone = NOWHERE | {"FAIRBEAT_STOP": "1"}
    first = spawn("celery", *BEAT, "fairbeat", EVERY_SECOND, ready="took over 64", **alone)
    eventually(lambda: Effect.objects.count() >= 2)
    spawn("celery", *BEAT, "fairbeat", EVERY_SECOND, ready="took over 64", **alone)
    assert first.wait() == 1
    assert "Error: another process has taken over" in first.output.splitlines()[-1]  # as many as its write was of
    ran = Effect.objects.count()
    eventually(lambda: Effect.objects.count() > ran)
