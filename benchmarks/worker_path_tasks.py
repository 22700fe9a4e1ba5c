"""The tasks and the Celery app of ``benchmarks.worker_path``: the same trivial body, under several regimes.

The app is the project's; its worker is told which of the run's queues it consumes (``-Q``), so that the prefetch is
Celery's own, the same for all.
"""

from __future__ import annotations

import os
import random

from celery import shared_task
from django.db import connection
from kombu import Exchange, Queue

from project.celery import app, queue_plan
from scheduling import job
from scheduling.core.fire import Lane
from scheduling.store.prepared import PreparedStatements

LANE = Lane.BULK

FLOOR_ROWS = 10_000
FLOOR = "UPDATE bench_floor SET n = n + 1 WHERE id = %(id)s RETURNING n"
MAKE_FLOOR = f"""
CREATE TABLE bench_floor (id integer PRIMARY KEY, n integer NOT NULL);
INSERT INTO bench_floor SELECT id, 0 FROM generate_series(0, {FLOOR_ROWS - 1}) id;
ANALYZE bench_floor;
"""

statements = PreparedStatements()
spec = queue_plan().queue(os.environ["BENCH_TENANT"], LANE)
app.conf.task_queues = [Queue(spec.name, Exchange(""), spec.name, queue_arguments=dict(spec.arguments))]
app.conf.result_extended = False  # django-celery-results at its cheapest


@shared_task(name="bench.plain", ignore_result=True)
def plain() -> int:
    return 42


@shared_task(name="bench.late", ignore_result=True, acks_late=True)
def late() -> int:
    return 42


@shared_task(name="bench.floor", ignore_result=True, acks_late=True)
def floor() -> int:
    connection.ensure_connection()
    for _ in range(2):
        statements.run(connection.connection, FLOOR, {"id": random.randrange(FLOOR_ROWS)})
    return 42


@job(name="bench.ledgered")
def ledgered() -> int:
    return 42


@shared_task(name="bench.stored")
def stored() -> int:
    return 42
