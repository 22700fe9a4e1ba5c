"""What limits cost along the whole way: the CPU of a fire with its run, of tenants without limits and with them.

    python -m benchmarks.limits_cost
    python -m benchmarks.limits_cost --quick

A scheduler node whose release has no bound (``FAIRNESS`` is "queues"), a worker of threads, and tasks of the ledger
that do nothing: so each run's end is seen, and frees its place under a cap. ``--rate`` fires a second are less than the
machine can do, so what is compared is what one costs. The limits of all tenants change as it goes, in rounds: ``none``,
``rate`` (far above what is used: tokens are leased), ``cap`` (each fire is asked for, and looked at until it is over).

``cpu_us`` is that of nodes, workers and servers for each run, the median of the rounds; ``of_none`` how many times as
much as without limits. ``fire_path --limited 20`` has the same of the way to the broker. The last line is JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import Any

import psycopg
import redis

from benchmarks.harness import await_owners, create_tenants, given_settings, installation, nodes, parser
from benchmarks.meters import cpu_of, listener, postmaster
from benchmarks.workers import workers

TASKS, TASK = "benchmarks.fair_shares_tasks", "bench.hold"
REDIS = "redis://127.0.0.1:6379/9"  # of the benchmark alone: it is emptied
LIMITS: Mapping[str, Mapping[str, int | None]] = {
    "none": {"rate_per_s": None, "burst": 1, "max_in_flight": None},
    "rate": {"rate_per_s": 10_000, "burst": 10_000, "max_in_flight": None},
    "cap": {"rate_per_s": None, "burst": 1, "max_in_flight": 10_000},
}
SETTLED_S = 3.0  # from a change of limits on
RUNS = "SELECT count(*) FROM scheduling_jobrun"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rate", type=int, default=250, help="fires a second")
    arguments.add_argument("--seconds", type=float, default=8.0, help="of each kind of limits, in a round")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--quick", action="store_true", help="one round")
    arguments.add_argument("--redis", default=REDIS, help="emptied")
    given = arguments.parse_args()
    redis.Redis.from_url(given.redis).flushdb()
    settings = {"FAIRNESS": "queues", "REDIS_URL": given.redis} | given_settings(given.set)
    with installation(given.amqp, settings) as installed, installed.connection() as connection:
        create_recurring(given.rate, create_tenants(given.tenants))
        with (
            nodes(1, given.log) as node_pids,
            workers(1, concurrency=8, include=TASKS, log=given.log, pool="threads") as fleet,
        ):
            await_owners(connection, nodes=1)
            groups = {"nodes": node_pids, "workers": [worker.pid for worker in fleet]} | servers(connection, given)
            found = rounds(connection, groups, 1 if given.quick else given.rounds, given.seconds)
    print(json.dumps({"due_per_s": given.rate, "tenants": given.tenants} | said(found)))


def create_recurring(rate: int, tenants: Sequence[Any]) -> None:
    """Jobs that are due each second, evenly spread."""
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    every, now = timedelta(seconds=1), JobClock.objects.now()
    for number, tenant in enumerate(tenants):
        jobs = [
            JobDefinition.interval_job(TASK, every, anchor=now + every * (n / rate), kwargs={"work_s": 0})
            for n in range(number, rate, len(tenants))
        ]
        Job.objects.copy(jobs, tenant=tenant)


def servers(connection: psycopg.Connection[Any], given: Any) -> dict[str, list[int]]:
    """Their processes, as far as they are on this machine and may be seen."""
    found = {"postgres": postmaster(connection), "rabbitmq": listener(given.amqp)}
    found["redis"] = listener(given.redis, default_port=6379)
    return {name: [pid] for name, pid in found.items() if pid is not None}


def rounds(
    connection: psycopg.Connection[Any], groups: Mapping[str, Sequence[int]], count: int, seconds: float
) -> dict[str, list[dict[str, float]]]:
    """Microseconds of CPU of each group for one run, by kind of limits, in each round."""
    from fairness.models import Tenant

    def reading() -> tuple[int, dict[str, float]]:
        (runs,) = connection.execute(RUNS).fetchone() or (0,)
        return runs, {name: sum(map(cpu_of, pids)) for name, pids in groups.items()}

    found: dict[str, list[dict[str, float]]] = {name: [] for name in LIMITS}
    time.sleep(SETTLED_S)
    for number in range(count):
        for name in sorted(LIMITS, reverse=number % 2 == 1):  # whoever was first is last next time
            Tenant.objects.update(**LIMITS[name])
            time.sleep(SETTLED_S)
            runs_before, before = reading()
            time.sleep(seconds)
            runs_after, after = reading()
            runs = max(1, runs_after - runs_before)
            found[name].append({group: (after[group] - before[group]) / runs * 1e6 for group in groups})
    return found


def said(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    cost = {name: median(sum(each.values()) for each in many) for name, many in found.items()}
    return {
        name: {
            "cpu_us": round(cost[name]),
            "of_none": round(cost[name] / cost["none"], 3),
            "by": {group: round(median(each[group] for each in many)) for group in many[0]},
        }
        for name, many in found.items()
    }


if __name__ == "__main__":
    main()
