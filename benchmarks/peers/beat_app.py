"""The Celery app whose beat is measured; configured by the environment of the process that runs it."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.harness import PLAIN_TASK

QUEUE = os.environ["BENCH_QUEUE"]
JOBS = int(os.environ.get("BENCH_BEAT_SCHEDULE", "0"))

app = Celery("peer", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_default_queue=QUEUE,
    task_default_queue_type="quorum",
    task_ignore_result=True,
    enable_utc=True,
    timezone="UTC",
    beat_schedule={f"job-{n}": {"task": PLAIN_TASK, "schedule": 1.0} for n in range(JOBS)},
    broker_transport_options={"confirm_publish": True} if os.environ.get("BENCH_CONFIRMS") else {},
)
if redis_url := os.environ.get("BENCH_REDBEAT_REDIS"):
    app.conf.update(redbeat_redis_url=redis_url, redbeat_key_prefix=f"{QUEUE}:")


@app.task(name=PLAIN_TASK)
def sent() -> None:
    """Never run: nobody consumes."""
