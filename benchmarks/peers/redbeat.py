"""RedBeat: its scheduler, with the entries in Redis.

.venv-bench/bin/python -m benchmarks.peers.redbeat --jobs 2000 [--confirms]
"""

from __future__ import annotations

import json
import os

import redis as redis_client

from benchmarks.harness import PLAIN_TASK
from benchmarks.peers.arrivals import Arrivals, parser, versions
from benchmarks.peers.beat import environment, fires_per_s

SCHEDULER = "redbeat.RedBeatScheduler"
REDIS = "redis://127.0.0.1:6379/0"


def main() -> None:
    arguments = parser(__doc__, jobs=2000)
    arguments.add_argument("--redis", default=os.environ.get("REDIS_URL") or REDIS)
    options = arguments.parse_args()
    with Arrivals(options.amqp) as arrivals:
        environ = {"BENCH_REDBEAT_REDIS": options.redis}
        os.environ |= environment(options, arrivals.name) | environ
        try:
            create_entries(options.jobs)
            figures = fires_per_s(options, arrivals, ["-S", SCHEDULER], environ)
        finally:
            forget(options.redis, arrivals.name)
    print(json.dumps(figures | {"versions": versions("celery-redbeat", "celery", "kombu", "redis")}))


def create_entries(count: int) -> None:
    from celery.schedules import schedule
    from redbeat import RedBeatSchedulerEntry

    from benchmarks.peers.beat_app import app

    for number in range(count):
        RedBeatSchedulerEntry(f"job-{number}", PLAIN_TASK, schedule(1.0, app=app), app=app).save()


def forget(redis_url: str, prefix: str) -> None:
    """Remove this run's keys."""
    client = redis_client.Redis.from_url(redis_url)
    for key in client.scan_iter(f"{prefix}:*", count=1000):
        client.delete(key)
    client.close()


if __name__ == "__main__":
    main()
