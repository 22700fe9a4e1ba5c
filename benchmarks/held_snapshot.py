"""Throughput while a transaction that has read all our tables is held open, against the same without it.

    python -m benchmarks.held_snapshot --minutes 10
    python -m benchmarks.held_snapshot --seconds 10

Method: two runs (that without it is of three minutes at most), each in a database of its own, at ``--rate`` fires due
a second, as ``fire_path`` has them. Job time passes midnight (UTC) in the middle of each, so that the ledger goes on to
a new day's partition, and a day of history expires. In the second run a REPEATABLE READ transaction has read from every
table of ours, partitions included, before the node was started, and stays open to the end: vacuum can remove nothing,
and whoever drops or truncates a partition would have to wait for it. The loss is the difference of the rates, as a
share. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql

from benchmarks.fire_path import measure, settings_in_force
from benchmarks.harness import (
    WARM_UP_S,
    Installation,
    create_jobs,
    create_tenants,
    given_options,
    given_settings,
    in_a_process,
    installation,
    parser,
    running,
    start_job_clock,
)
from benchmarks.machine import commit_mode
from benchmarks.meters import Meters

HISTORY_DAYS = 30  # the class of a tenant that names none
OUR_TABLES = """
    SELECT c.relname FROM pg_class c
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
      AND (c.relname LIKE 'scheduling%' OR c.relname LIKE 'fairness%')
    ORDER BY c.relname
"""
FREE_S = 180.0  # the case without a snapshot changes no more
DEAD_ROWS = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables"
DAYS = "SELECT count(*) FROM pg_class WHERE relname ~ '^scheduling_fire_[0-9]+_[0-9]+$'"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rate", type=int, default=2000, help="fires a second that are due")
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--seconds", type=float, help="instead of --minutes")
    arguments.add_argument("--case", choices=("free", "held"), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    seconds = options.minutes * 60 if options.seconds is None else options.seconds
    if options.case:
        print(json.dumps(case(options, seconds)))
        return
    forwarded = ["--rate", str(options.rate), *given_options(options)]
    free, held = (
        in_a_process("held_snapshot", "--case", which, "--seconds", str(case_s), *forwarded)
        for which, case_s in (("free", min(seconds, FREE_S)), ("held", seconds))
    )
    loss = 100 * (1 - held["fires_per_s"] / free["fires_per_s"])
    print(json.dumps({"due_per_s": options.rate, "loss_percent": round(loss, 1), "free": free, "held": held}))


def case(options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    with (
        installation(options.amqp, given_settings(options.set)) as installed,
        installed.connection() as connection,
        ExitStack() as stack,
    ):
        stop_before_midnight(WARM_UP_S + seconds / 2, connection)
        create_jobs(options.rate, create_tenants(options.tenants))
        days = _count(connection, DAYS)
        tables = stack.enter_context(held_snapshot(installed)) if options.case == "held" else 0
        with running(options, installed) as (pids, queues, _):
            start_job_clock(connection, nodes=options.nodes)
            meters = Meters(connection, node_pids=pids, amqp=options.amqp)
            figures = measure(connection, queues, meters, seconds, with_series=True)
            return figures | {
                "tables_held": tables,
                "days_before": days,
                "days_after": _count(connection, DAYS),
                "dead_rows": _count(connection, DEAD_ROWS),
                "settings": settings_in_force(),
                "commit_mode": commit_mode(installed.url),
            }


def stop_before_midnight(seconds: float, connection: psycopg.Connection[Any]) -> None:
    """Job time stands so long before midnight; and a day lies there whose time-to-live ends with it."""
    from scheduling.models import JobClock
    from scheduling.store import partitions

    now = JobClock.objects.now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    JobClock.objects.create(job_origin=midnight - timedelta(seconds=seconds))
    expiring = (midnight - timedelta(days=HISTORY_DAYS + 1)).date()
    partitions.ensure(connection, [(HISTORY_DAYS, expiring)])


@contextmanager
def held_snapshot(installed: Installation) -> Iterator[int]:
    """A transaction that has read every table of ours; how many there are."""
    with psycopg.connect(installed.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        names = [name for (name,) in reader.execute(OUR_TABLES)]
        for name in names:
            reader.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name)))
        yield len(names)
        reader.rollback()


def _count(connection: psycopg.Connection[Any], query: str) -> int:
    return int((connection.execute(query).fetchone() or (0,))[0])


if __name__ == "__main__":
    main()
