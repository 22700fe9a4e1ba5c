"""What a scheduler node's memory goes into: bare timers, claimed fires, and jobs at rest, which must cost nothing.

    python -m benchmarks.memory [--fires 100000] [--at-rest 100000] [--quick]

*A bare timer*: a process makes a wheel of a million timers (random over an hour, item None). Its resident memory, less
what it was before.

*A claimed fire*: a node (``manage.py scheduler``, with a window of hours and ``AHEAD`` raised, else the preset) claims
jobs that are due in an hour, and holds their fires in its wheel. Each fire is of a job of its own. The weight is the
growth of the node's resident memory between two moments at which it held all that was due, divided by the fires
between; ``WARM`` others come before, and fill what a process fills once. So it is everything: the fire, the texts of
its job, its number, its place in the wheel, and what the allocator wastes.

*A job at rest*: before the fires that are measured, jobs beyond the window are added; the node polls beside them, and
its memory is read again. *The cap*: ``AHEAD`` is reached with the last fire measured, and ``OVER`` more become due in
the window at the end; they must stay in Postgres. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import count, islice
from typing import Any

import psutil
import psycopg

from benchmarks.harness import AMQP, STOP, create_tenants, installation, nodes

TIMERS, SPAN_MS = 1_000_000, 3_600_000
TENANTS = 20
WARM = 10_000
OVER = 2_000
SETTLE_S = 1.5  # fifteen polls
PATIENCE_S = 60.0  # in which the next fire is claimed
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TASK = "shop.tasks.charge"
CLAIMED = "SELECT count(*) FROM scheduling_fire WHERE state = 'claimed'"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--fires", type=int, default=100_000)
    arguments.add_argument("--at-rest", type=int, default=100_000, help="jobs beyond the window")
    arguments.add_argument("--quick", action="store_true", help="20,000 of each")
    arguments.add_argument("--amqp", default=os.environ.get("AMQP_URL") or AMQP)
    arguments.add_argument("--log", default=os.devnull, help="of the node")
    arguments.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.bare:
        print(bare_timer_bytes())
        return
    if options.quick:
        options.fires = options.at_rest = 20_000
    bare = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", "--bare"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    line = {"method": "resident memory", "stop": STOP, "timers": TIMERS, "bytes_per_timer": round(float(bare))}
    print(json.dumps(line | weigh_node(options)))


def bare_timer_bytes() -> float:
    from scheduling.core.timing_wheel import TimingWheel

    process, rng, start = psutil.Process(), random.Random(1), 1_767_225_600_000
    before = process.memory_info().rss
    wheel: TimingWheel[None] = TimingWheel(start)
    for _ in range(TIMERS):
        wheel.add(start + 1 + int(rng.random() * SPAN_MS), None)
    return (process.memory_info().rss - before) / TIMERS


def weigh_node(options: argparse.Namespace) -> dict[str, Any]:
    cap = WARM + options.fires
    with installation(options.amqp, {"WINDOW_S": 3 * HOUR.total_seconds(), "AHEAD": cap}) as installed:
        tenants = create_tenants(TENANTS)
        with installed.connection() as connection, nodes(1, options.log) as (pid,):
            numbers = count()
            create_jobs(tenants, islice(numbers, WARM), due_in=HOUR)
            warm = rss_when_it_holds(WARM, pid, connection)
            create_jobs(tenants, islice(numbers, options.at_rest), due_in=DAY)
            at_rest = rss_when_it_holds(WARM, pid, connection)
            create_jobs(tenants, islice(numbers, options.fires), due_in=HOUR)
            full = rss_when_it_holds(cap, pid, connection)
            create_jobs(tenants, islice(numbers, OVER), due_in=HOUR)
            over = rss_when_it_holds(cap, pid, connection)
            held = claimed(connection)
    return {
        "fires": options.fires,
        "bytes_per_claimed_fire": round((full - at_rest) / options.fires),
        "each": {"task": TASK, "name": name(0), "args": [], "kwargs": kwargs(0)},
        "cap": cap,
        "held_at_cap": held,
        "jobs_at_rest": options.at_rest,
        "bytes_per_job_at_rest": round((at_rest - warm) / options.at_rest, 1),
        "node_mib": {
            name: round(size / 2**20, 1)
            for name, size in {"warm": warm, "at_rest": at_rest, "full": full, "over": over}.items()
        },
    }


def create_jobs(tenants: Sequence[Any], numbers: Iterable[int], *, due_in: timedelta) -> None:
    """With names and arguments of their own; due from ``due_in`` on, spread over an hour, and then daily."""
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    first, numbers = JobClock.objects.now() + due_in, list(numbers)
    step = HOUR / len(numbers)
    for place, tenant in enumerate(tenants):
        Job.objects.copy(
            [
                JobDefinition.interval_job(
                    TASK, DAY, anchor=first + step * nth, start_at=first, name=name(number), kwargs=kwargs(number)
                )
                for nth, number in islice(enumerate(numbers), place, None, len(tenants))
            ],
            tenant=tenant,
        )


def name(number: int) -> str:
    return f"charge-{number:07d}"


def kwargs(number: int) -> dict[str, int]:
    return {"customer": 1_000_000 + number}


def rss_when_it_holds(fires: int, pid: int, connection: psycopg.Connection[Any]) -> int:
    """Waits as long as more and more are claimed."""
    held, moved_at = -1, time.monotonic()
    while (now_held := claimed(connection)) < fires:
        if now_held > held:
            held, moved_at = now_held, time.monotonic()
        elif time.monotonic() > moved_at + PATIENCE_S:
            raise SystemExit(f"the node holds {held} of {fires} fires, and claims no more")
        time.sleep(0.2)
    time.sleep(SETTLE_S)
    return rss(pid)


def claimed(connection: psycopg.Connection[Any]) -> int:
    return int((connection.execute(CLAIMED).fetchone() or (0,))[0])


def rss(pid: int) -> int:
    return psutil.Process(pid).memory_info().rss


if __name__ == "__main__":
    main()
