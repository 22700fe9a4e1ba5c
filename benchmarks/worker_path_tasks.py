"""The tasks and the Celery app of ``benchmarks.worker_path``: the same trivial body, under three regimes.

The app is the project's; its worker is told which of the run's queues it consumes (``-Q``), so that the prefetch is
Celery's own, the same for all.
"""

from __future__ import annotations

import os

from celery import shared_task
from kombu import Exchange, Queue

from project.celery import app, queue_plan
from scheduling import job
from scheduling.core.fire import Lane

LANE = Lane.BULK

spec = queue_plan().queue(os.environ["BENCH_TENANT"], LANE)
app.conf.task_queues = [Queue(spec.name, Exchange(""), spec.name, queue_arguments=dict(spec.arguments))]
app.conf.result_extended = False  # django-celery-results at its cheapest


@shared_task(name="bench.plain", ignore_result=True)
def plain() -> int:
    return 42


@shared_task(name="bench.late", ignore_result=True, acks_late=True)
def late() -> int:
    return 42


@job(name="bench.ledgered")
def ledgered() -> int:
    return 42


@shared_task(name="bench.stored")
def stored() -> int:
    return 42
