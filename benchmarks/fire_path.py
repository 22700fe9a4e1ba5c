"""The fire path, whole: from due rows to messages confirmed by quorum queues and recorded in Postgres.

    python -m benchmarks.fire_path --rate 20000 --every 20    what it can do: more is due than it can fire
    python -m benchmarks.fire_path --rate 500                 latency at a light load
    python -m benchmarks.fire_path --rate 10000 --minutes 10  sustained, with a series of ten seconds each

Method: ``rate`` jobs with an interval of a second, spread over that second and over ``tenants``, in a database made
for the run; scheduler nodes as processes of their own, with the default settings of the stop (``--set BATCH=2000``
sets another). Above capacity a job that is late has several occurrences in one claim, which is cheaper than one each:
``--every 20`` makes twenty times the jobs with twenty times the interval, so that each is claimed once. Job time stands
still while jobs are created and nodes start, so that no backlog is measured but one of the run. The jobs name a plain
Celery task (they are sent, and nobody runs them); the queues are purged every second, because a Python consumer drains
slower than the scheduler fires. A fire counts when its row is at or below the watermark that is recorded in Postgres:
fsync and synchronous_commit are as the server has them (both are printed). Latency is (confirmed - due), from the
nodes' own histograms. The last line is JSON.
"""

from __future__ import annotations

import json
import time
from typing import Any

import psycopg

from benchmarks.harness import (
    STOP,
    WARM_UP_S,
    RunQueues,
    create_jobs,
    create_tenants,
    given_settings,
    installation,
    parser,
    running,
    start_job_clock,
    stop_job_clock,
)
from benchmarks.machine import commit_mode
from benchmarks.meters import Meters, Reading, costs, count_recorded, difference, percentiles_ms, point

SERIES_S = 10.0


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rate", type=int, default=10_000, help="fires a second that are due")
    arguments.add_argument("--every", type=int, default=1, help="seconds between the fires of a job")
    arguments.add_argument("--warm-up", type=float, default=WARM_UP_S, help="seconds")
    arguments.add_argument("--seconds", type=float, default=20.0, help="measured, after a warm-up")
    arguments.add_argument("--minutes", type=float, help="instead of --seconds; with a series")
    arguments.add_argument("--limited", type=int, default=0, help="tenants with a rate and a cap, which hold nobody up")
    options = arguments.parse_args()
    with installation(options.amqp, given_settings(options.set)) as installed:
        tenants = create_tenants(options.tenants)
        limit(tenants[: options.limited])
        stop_job_clock()
        created_s = create_jobs(options.rate, tenants, every_s=options.every)
        with running(options, installed) as (pids, queues, connection):
            start_job_clock(connection, nodes=options.nodes)
            meters = Meters(connection, node_pids=pids, amqp=options.amqp)
            is_long = options.minutes is not None
            seconds = options.minutes * 60 if is_long else options.seconds
            figures = measure(connection, queues, meters, seconds, warm_up_s=options.warm_up, with_series=is_long)
        print(
            json.dumps(
                {"due_per_s": options.rate, "jobs": options.rate * options.every}
                | figures
                | {"jobs_created_per_s": round(options.rate * options.every / created_s)}
                | {"tenants": options.tenants, "limited": options.limited}
                | {"nodes": options.nodes, "settings": settings_in_force(), "commit_mode": commit_mode(installed.url)}
            )
        )


def limit(tenants: list[Any]) -> None:
    """Give them limits that are asked for with each fire, and that are never reached."""
    for tenant in tenants:
        tenant.rate_per_s, tenant.burst, tenant.max_in_flight = 1e6, 1_000_000, 1_000_000
        tenant.save()


def measure(
    connection: psycopg.Connection[Any],
    queues: RunQueues,
    meters: Meters,
    seconds: float,
    *,
    warm_up_s: float = WARM_UP_S,
    with_series: bool = False,
) -> dict[str, Any]:
    """Fires, latency and costs over ``seconds``, once the nodes are warm."""
    queues.purge_until(time.monotonic() + warm_up_s)
    before, from_s = count_recorded(connection)
    readings = [meters.read()]

    def read_on() -> None:
        if with_series and time.monotonic() - readings[-1].at >= SERIES_S:
            readings.append(meters.read())

    queues.purge_until(readings[0].at + seconds, each_second=read_on)
    last = meters.read()
    after, until_s = count_recorded(connection)
    return _figures(readings[0], last, after - before, until_s - from_s) | skipped(connection) | _series(readings)


def _figures(first: Reading, last: Reading, fires: int, elapsed_s: float) -> dict[str, Any]:
    return {
        "fires_per_s": round(fires / elapsed_s),
        "fire_latency_ms": percentiles_ms(difference(last.latency, first.latency)),
        "seconds": round(elapsed_s, 1),
    } | costs(first, last, fires)


def _series(readings: list[Reading]) -> dict[str, Any]:
    if len(readings) < 2:
        return {}
    return {"series": [point(readings[n], readings[n + 1], readings[0].at) for n in range(len(readings) - 1)]}


def skipped(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Occurrences that were due and were not fired, by the jobs' policy."""
    query = "SELECT coalesce(sum(covers), 0)::bigint FROM scheduling_fire WHERE state = 'skipped'"
    return {"skipped": int((connection.execute(query).fetchone() or (0,))[0])}


def settings_in_force() -> dict[str, Any]:
    """Those that a figure depends on."""
    from django.conf import settings

    from scheduling.conf import scheduling_settings

    ours = scheduling_settings(settings)
    names = ("SHARDS", "BATCH", "WINDOW_S", "POLL_S", "BACKLOG", "AHEAD")
    return {"STOP": int(STOP)} | {name: getattr(ours, name) for name in names}


if __name__ == "__main__":
    main()
