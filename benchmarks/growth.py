"""What firing costs as the jobs at rest grow in number, and how soon a node fires after its start.

    python -m benchmarks.growth --sizes 10000,100000,1000000,10000000
    python -m benchmarks.growth --sizes 100000 --shards 1,16,64

Method: for each size and number of shards a database of its own, with that many daily jobs whose next fire is twelve
to thirty-six hours away (made by one INSERT … SELECT from a row that was made as jobs are: creation is measured
elsewhere), analysed and checkpointed; and ``--rate`` jobs that are due once a second. A node starts, and is measured as
``fire_path`` does: rate, latency, CPU and WAL for each fire, and its resident memory. Start-up is counted from the
start of the process to the first fire that is recorded, and to the lease. The last line is JSON, with a row for each
case.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import timedelta
from typing import Any

import psycopg

from benchmarks.fire_path import measure, settings_in_force
from benchmarks.harness import (
    PLAIN_TASK,
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
)
from benchmarks.meters import Meters

LOOK_S = 0.01
STARTS_WITHIN_S = 120.0
INSERTED_AT_ONCE = 1_000_000
STARTED = """
    SELECT (SELECT bool_or(lease_until > clock_timestamp()) FROM scheduling_node),
        (SELECT bool_or(seq > 0) FROM scheduling_shardprogress)
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--sizes", default="10000,100000,1000000", help="jobs at rest, by commas")
    arguments.add_argument("--shards", default="64", help="numbers of shards, by commas")
    arguments.add_argument("--rate", type=int, default=2000, help="fires a second that are due beside them")
    arguments.add_argument("--seconds", type=float, default=15.0)
    arguments.add_argument("--case", action="store_true", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.case:
        print(json.dumps(case(options)))
        return
    forwarded = ["--seconds", str(options.seconds), "--rate", str(options.rate), *given_options(options)]
    rows = []
    for shards in options.shards.split(","):
        for size in options.sizes.split(","):
            rows.append(in_a_process("growth", "--case", "--sizes", size, "--shards", shards, *forwarded))
            print(json.dumps(rows[-1]), file=sys.stderr)
    print(json.dumps({"due_per_s": options.rate, "rows": rows}))


def case(options: argparse.Namespace) -> dict[str, Any]:
    size, shards = int(options.sizes), int(options.shards)
    with installation(options.amqp, given_settings(options.set) | {"SHARDS": shards}) as installed:
        tenants = create_tenants(options.tenants)
        with installed.connection() as connection:
            inserted_s = rest(connection, size, shards, len(tenants))
            table_bytes = _scalar(connection, "SELECT pg_total_relation_size('scheduling_job')")
        return started(options, installed, tenants) | {
            "at_rest": size,
            "shards": shards,
            "inserted_per_s": round(size / inserted_s),
            "job_table_bytes": table_bytes,
            "settings": settings_in_force(),
        }


def rest(connection: psycopg.Connection[Any], count: int, shards: int, tenants: int) -> float:
    """Jobs that are not due for hours, beside a template that is deleted; returns the seconds that INSERT took."""
    from scheduling.models import Job, JobClock

    far = JobClock.objects.now() + timedelta(hours=12)
    template = Job.objects.cron(PLAIN_TASK, f"0 {far.hour} * * *", name="template", tenant="bench-0")
    own = {
        "id": "gen_random_uuid()",
        "tenant_id": f"(SELECT min(id) FROM fairness_tenant WHERE slug LIKE 'bench-%%') + n %% {tenants}",
        "name": "'rest-' || n",
        "shard_id": f"n %% {shards}",
        "cron": "(n %% 60) || ' ' || (n / 60 %% 24) || ' * * *'",
        "next_scheduled_for": "t.soon + n %% 86400 * interval '1 second'",
        "next_fire_at": "t.soon + n %% 86400 * interval '1 second'",
    }
    columns = [str(field.column) for field in Job._meta.concrete_fields]
    values = ", ".join(own.get(column, f"t.{column}") for column in columns)
    insert = (
        f"INSERT INTO scheduling_job ({', '.join(columns)}) SELECT {values} FROM (SELECT j.*, clock_timestamp() "
        "+ interval '12 hours' AS soon FROM scheduling_job j WHERE id = %s) t, generate_series(%s::int, %s::int) n"
    )
    began = time.monotonic()
    for first in range(0, count, INSERTED_AT_ONCE):
        connection.execute(insert, [template.pk, first, min(first + INSERTED_AT_ONCE, count) - 1])
    elapsed_s = time.monotonic() - began
    template.delete()
    connection.execute("VACUUM ANALYZE scheduling_job")
    try:
        connection.execute("CHECKPOINT")  # else the measurement pays for writing them
    except psycopg.errors.InsufficientPrivilege as refused:
        print(f"no checkpoint before the measurement: {refused}", file=sys.stderr)
    return elapsed_s


def started(options: argparse.Namespace, installed: Installation, tenants: list[Any]) -> dict[str, Any]:
    create_jobs(options.rate, tenants)
    began = time.monotonic()
    with running(options, installed) as (pids, queues, connection):
        start = _start_up(connection, began)
        meters = Meters(connection, node_pids=pids, amqp=options.amqp)
        figures = measure(connection, queues, meters, options.seconds, warm_up_s=WARM_UP_S)
        return figures | start | {"node_rss_mib": round(meters.node_rss_bytes() / len(pids) / 2**20, 1)}


def _start_up(connection: psycopg.Connection[Any], began: float) -> dict[str, float]:
    """Seconds from the start of the processes."""
    found: dict[str, float] = {}
    while "first_fire_s" not in found:
        has_lease, has_fired = connection.execute(STARTED).fetchone() or (False, False)
        now_s = round(time.monotonic() - began, 2)
        if now_s > STARTS_WITHIN_S:
            raise SystemExit(f"no fire was recorded {STARTS_WITHIN_S:g} s after the start of the node; see --log")
        if has_lease:
            found.setdefault("lease_s", now_s)
        if has_fired:
            found["first_fire_s"] = now_s
        time.sleep(LOOK_S)
    return found


def _scalar(connection: psycopg.Connection[Any], query: str) -> int:
    return int((connection.execute(query).fetchone() or (0,))[0])


if __name__ == "__main__":
    main()
