"""How soon an edit is seen: from the commit that makes a far-off job due at once to the row of its occurrence.

    python -m benchmarks.edit_latency --edits 100

Method: a node with the default settings of stop 4, in a process of its own; jobs that are next due in a year are edited
one at a time through the ORM, at random moments 20 to 120 ms apart, to be due 50 ms later. Both instants are the
database's: the last statement before the commit, and ``claimed_at`` of the occurrence's row. ``fire_latency_ms`` is how
late the same fires were confirmed by the broker. The first edit warms up. The last line is JSON.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg

from benchmarks.fire_path import settings_in_force
from benchmarks.harness import (
    PLAIN_TASK,
    await_owners,
    create_tenants,
    given_settings,
    installation,
    parser,
    running,
)
from benchmarks.machine import commit_mode
from benchmarks.meters import latency, percentiles_ms

FAR = timedelta(days=365)
AHEAD = timedelta(milliseconds=50)  # an edit makes nothing due that is past when it is written
PATIENCE_S = 30.0
LOOK_S = 0.01


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--edits", type=int, default=100)
    options = arguments.parse_args()
    with installation(options.amqp, given_settings(options.set)) as installed:
        jobs = create_far_jobs(options.edits + 1, options.tenants)
        with running(options, installed) as (_, _, connection):
            await_owners(connection, nodes=options.nodes)
            figures = measure(connection, jobs)
        print(json.dumps(figures | {"settings": settings_in_force(), "commit_mode": commit_mode(installed.url)}))


def create_far_jobs(count: int, tenants: int) -> Sequence[Any]:
    from scheduling.models import Job, JobClock

    anchor, owners = JobClock.objects.now() + FAR, create_tenants(tenants)
    return [Job.objects.every(PLAIN_TASK, FAR, anchor=anchor, tenant=owners[n % tenants]) for n in range(count)]


def measure(connection: psycopg.Connection[Any], jobs: Sequence[Any]) -> dict[str, Any]:
    seen_ms = []
    for job in jobs:
        time.sleep(random.uniform(0.02, 0.12))
        edited_at = edit(job)
        seen_ms.append(1000 * (claimed_at(job) - edited_at).total_seconds())
    until(lambda: latency(connection).count >= len(jobs))
    fired = latency(connection)
    seen_ms = sorted(seen_ms[1:])
    return {
        "edits": len(seen_ms),
        "edit_latency_ms": {
            "p50": round(statistics.median(seen_ms), 1),
            "p99": round(seen_ms[int(0.99 * len(seen_ms))], 1),
            "max": round(seen_ms[-1], 1),
        },
        "fire_latency_ms": percentiles_ms(fired) | {"max": round(1000 * (fired.max or 0), 1)},
    }


def edit(job: Any) -> datetime:
    """Make it due in a moment; gives the last instant before the commit."""
    from django.db import connection, transaction

    from scheduling.models import JobClock

    with transaction.atomic(), connection.cursor() as cursor:
        job.anchor = JobClock.objects.now() + AHEAD
        job.save()
        cursor.execute("SELECT clock_timestamp()")
        (at,) = cursor.fetchone()
    assert isinstance(at, datetime)
    return at


def claimed_at(job: Any) -> datetime:
    """Waits for the row of the occurrence."""
    from scheduling.models import Fire

    rows = Fire.objects.filter(job=job, scheduled_for=job.anchor).values_list("claimed_at", flat=True)
    until(rows.exists)
    return rows.get()


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"an edit was not seen, or its fire not confirmed, in {PATIENCE_S:g} s; see --log")
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
