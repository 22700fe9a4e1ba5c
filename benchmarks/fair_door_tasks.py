"""The task and the Celery app of ``benchmarks.fair_door``: the task holds its slot for a while, and notes when, in a
file that all append to. The app is the project's; a stock worker's is without this project's steps, and knows what it
is told to consume (``-Q``).
"""

from __future__ import annotations

import os
import time

from celery import shared_task
from kombu import Exchange, Queue

from project.celery import app, queue_plan

if told := os.environ.get("BENCH_TENANTS"):
    app.steps["consumer"].clear()
    specs = [queue_plan().queue(slug, "bulk") for slug in told.split(",")]
    app.conf.task_queues = [
        Queue(spec.name, Exchange(""), spec.name, queue_arguments=dict(spec.arguments)) for spec in specs
    ]


@shared_task(name="bench.nap", acks_late=True, ignore_result=True)
def nap(tenant: str, seconds: float) -> None:
    began = time.time()
    if seconds:
        time.sleep(seconds)
    line = f"{tenant} {began:.6f} {time.time():.6f} {os.environ['BENCH_WORKER']}\n"
    file = os.open(os.environ["BENCH_NAPS"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
