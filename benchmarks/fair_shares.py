"""Shares and limits on the real services: nodes, RabbitMQ, Redis, Celery workers, tasks that hold a slot for a while.

    python -m benchmarks.fair_shares shares --tenants 20 [--nodes 4] [--seconds 60]
    python -m benchmarks.fair_shares five [--pool prefork]
    python -m benchmarks.fair_shares long | light | million | weight_change | lone | comeback | rate | strict

Times are those of the history of runs (``scheduling_jobrun``), by the database's clock; the slots are threads where
nothing else is said, since tasks that sleep need no processes. The last line is JSON.

- ``shares``: all tenants have more than they can be served; weights from 1 to 50, tasks of 20 to 200 ms. Jain's index
  of slot-time over weight, over the whole span and in its worst second; idle slots.
- ``five``: weights 1, 2, 3, 6 and 12, all tasks alike; how far a share was from its weight's in any ten seconds.
- ``long``: one of three tenants has tasks that take fifty times as long as the others'.
- ``million``: when jobs of a hundred tenants start, one a second each, beside a million jobs of one that are due now.
- ``light``: when a tenant's job starts, each half second one, beside nobody and beside a flood of 20,000 jobs.
- ``weight_change``: two tenants at 1 to 1, and then at 1 to 4: how long until the shares are within 5 %.
- ``lone``: how much of the slots a single tenant of little weight gets.
- ``comeback``: a tenant that was idle floods beside others who were not: how far its first five seconds are from its
  weight.
- ``rate``: starts beyond a rate with a burst, in any span, over so many ``--nodes``.
- ``strict``: how many runs of a tenant with a strict cap were under way at once, as those saw who ran, while workers
  and nodes are killed and Redis is emptied.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import redis

from benchmarks.fair_measures import (
    Ran,
    index,
    most_beyond,
    percentile,
    settles_after,
    share_error,
    shares_of,
    slot_time,
    worst_second,
    worst_window,
)
from benchmarks.fair_shares_tasks import WITNESSES
from benchmarks.harness import Installation, await_owners, given_settings, installation, nodes, parser
from benchmarks.workers import Worker, workers

TASKS = "benchmarks.fair_shares_tasks"
HOLD, WITNESSED = "bench.hold", "bench.witnessed"
REDIS = "redis://127.0.0.1:6379/9"  # of the benchmark alone: it is emptied
WARM_UP_S = 10.0
DECLARED_S = 5.0  # in which the queues of a hundred tenants are declared: not what a flood does to them
PATIENCE_S = 60.0
BUSY_MARGIN = 1.6  # times what can be served: so that nobody runs dry

Given = argparse.Namespace
RUNS = """
SELECT t.slug, extract(epoch FROM r.started_at)::float8, extract(epoch FROM r.finished_at)::float8
FROM scheduling_jobrun r JOIN fairness_tenant t ON t.id = r.tenant_id
WHERE r.holder <> '00000000-0000-0000-0000-000000000000'
UNION ALL
SELECT t.slug, extract(epoch FROM f.started_at)::float8, extract(epoch FROM clock_timestamp())::float8
FROM scheduling_fire f JOIN fairness_tenant t ON t.id = f.tenant_id WHERE f.state = 'running'
"""
DELAYS_OF_MANY = """
SELECT extract(epoch FROM f.started_at - f.fire_at)::float8
FROM scheduling_fire f JOIN fairness_tenant t ON t.id = f.tenant_id
WHERE t.slug LIKE %s AND f.started_at IS NOT NULL AND f.fire_at >= to_timestamp(%s)
"""
DELAYS = """
SELECT extract(epoch FROM f.started_at - f.fire_at)::float8
FROM scheduling_fire f JOIN fairness_tenant t ON t.id = f.tenant_id
WHERE t.slug = %s AND f.started_at IS NOT NULL AND f.fire_at >= to_timestamp(%s)
"""


class Bench:
    """A run's database, nodes and workers."""

    def __init__(self, given: Given, connection: psycopg.Connection[Any], fleet: Sequence[Worker], slots: int) -> None:
        self.given, self.connection, self.fleet, self.slots = given, connection, fleet, slots

    def tenant(self, slug: str, **terms: Any) -> Any:
        from fairness.models import Tenant

        return Tenant.objects.create(slug=slug, **terms)

    def flood(self, tenant: Any, count: int, work_s: float, *, task: str = HOLD, apart_s: float = 0.0) -> None:
        """So many jobs, the last of which is due now, and each so long after the one before it."""
        from scheduling.core.definition import JobDefinition
        from scheduling.models import Job, JobClock

        now = JobClock.objects.now()
        said: dict[str, Any] = {"kwargs": {"work_s": work_s}, "retry_base": timedelta(seconds=0.1), "max_attempts": 50}
        due = [now - timedelta(seconds=apart_s * left) for left in range(count)]
        Job.objects.copy([JobDefinition.once_job(task, at, **said) for at in due], tenant=tenant)

    def now(self) -> float:
        (now,) = self.connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
        return float(now)

    def runs(self) -> list[Ran]:
        return [Ran(*row) for row in self.connection.execute(RUNS)]

    def until(self, is_so: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not is_so():
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: not within {patience_s:g} s; see --log")
            time.sleep(0.05)

    def is_busy(self) -> bool:
        """Whether every slot has something to do."""
        (count,) = self.connection.execute(
            "SELECT count(*) FROM scheduling_fire WHERE state = 'running'"
        ).fetchone() or (0,)
        return int(count) >= self.slots

    def idle(self, runs: Sequence[Ran], since: float, until: float) -> float:
        """The part of the slots' time in which nothing ran."""
        return 1 - sum(slot_time(runs, since, until).values()) / (self.slots * (until - since))

    def depth(self) -> dict[str, Any]:
        """What was in flight at the end."""
        (sent,) = self.connection.execute(
            "SELECT count(*) FROM scheduling_fire f JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id"
            " WHERE f.state = 'claimed' AND (f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq) OR f.state = 'running'"
        ).fetchone() or (0,)
        return {"in_flight": sent, "slots": self.slots}


def shares(bench: Bench) -> dict[str, Any]:
    rng, count = random.Random(bench.given.seed), bench.given.tenants
    weights = {f"bench-{n}": round(50 ** (n / max(1, count - 1)), 3) if count > 1 else 1.0 for n in range(count)}
    return _all_flood(bench, weights, {slug: rng.choice([0.02, 0.05, 0.1, 0.2]) for slug in weights})


def five(bench: Bench) -> dict[str, Any]:
    weights = {f"weight-{weight}": float(weight) for weight in (1, 2, 3, 6, 12)}
    return _all_flood(bench, weights, dict.fromkeys(weights, 0.05))


def long(bench: Bench) -> dict[str, Any]:
    weights = {"long": 1.0, "one": 1.0, "other": 2.0}
    return _all_flood(bench, weights, {"long": 1.0, "one": 0.02, "other": 0.02})


def _all_flood(bench: Bench, weights: Mapping[str, float], works_s: Mapping[str, float]) -> dict[str, Any]:
    given = bench.given
    total, span_s = sum(weights.values()), given.seconds + WARM_UP_S + 5
    for slug, weight in weights.items():
        wanted = bench.slots * span_s * weight / total / works_s[slug] * BUSY_MARGIN
        bench.flood(bench.tenant(slug, weight=weight), max(20, int(wanted)), works_s[slug])
    bench.until(bench.is_busy, "the slots are busy")
    time.sleep(WARM_UP_S + given.seconds)
    until = bench.now()
    since, runs = until - given.seconds, bench.runs()
    return {
        "tenants": len(weights),
        "pool": given.pool,
        "shares": shares_of(runs, weights, since, until),
        "worst_10_s_points": worst_window(runs, weights, since, until, window_s=10.0),
        "jain": round(index(runs, weights, since, until), 5),
        "jain_worst_second": round(worst_second(runs, weights, since, until), 4),
        "largest_error": round(share_error(runs, weights, since, until), 4),
        "idle": round(bench.idle(runs, since, until), 4),
        "runs_per_s": round(sum(since <= run.began < until for run in runs) / given.seconds, 1),
        **bench.depth(),
    }


def light(bench: Bench) -> dict[str, Any]:
    given, work_s = bench.given, 0.1
    victim, flood = bench.tenant("victim"), bench.tenant("flood")

    def delays() -> list[float]:
        since = bench.now()
        rng = random.Random(given.seed)
        for _ in range(int(given.seconds * 2)):
            bench.flood(victim, 1, work_s)
            time.sleep(0.25 + rng.random() / 2)
        time.sleep(2)
        return [delay for (delay,) in bench.connection.execute(DELAYS, ["victim", since])]

    quiet = delays()
    bench.flood(flood, 20_000, work_s)
    bench.until(bench.is_busy, "the slots are busy")
    time.sleep(WARM_UP_S)
    beside = delays()
    depth = bench.depth()
    beyond = max(0, depth["in_flight"] - bench.slots) / bench.slots * work_s
    return {
        "quiet_ms": {"p50": _ms(median(quiet)), "p99": _ms(percentile(quiet, 0.99))},
        "flooded_ms": {"p50": _ms(median(beside)), "p99": _ms(percentile(beside, 0.99))},
        "bar_ms": _ms(1.5 * percentile(quiet, 0.99) + beyond),
        **depth,
    }


def million(bench: Bench) -> dict[str, Any]:
    """Beside a million jobs of one tenant, all due now, a hundred tenants fire a job a second each; once they have
    queues.
    """
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    work_s, every = 0.05, timedelta(seconds=1)

    def hundred(name: str) -> list[float]:
        since = bench.now() + 1 + DECLARED_S
        begin = JobClock.objects.now() + timedelta(seconds=1)
        for number in range(100):
            tenant = bench.tenant(f"{name}-{number}")
            job = JobDefinition.interval_job(
                HOLD,
                every,
                anchor=begin + every * (number / 100),
                start_at=begin,
                end_at=begin + timedelta(seconds=bench.given.seconds / 2),
                kwargs={"work_s": work_s},
            )
            Job.objects.define(job, tenant=tenant)
        time.sleep(bench.given.seconds / 2 + 3)
        return [delay for (delay,) in bench.connection.execute(DELAYS_OF_MANY, [f"{name}-%", since])]

    quiet = hundred("quiet")
    bench.flood(bench.tenant("flood"), bench.given.jobs, work_s)
    bench.until(bench.is_busy, "the slots are busy", 120)
    time.sleep(WARM_UP_S)
    beside = hundred("beside")
    depth = bench.depth()
    beyond = max(0, depth["in_flight"] - bench.slots) / bench.slots * work_s
    return {
        "flood": bench.given.jobs,
        "quiet_ms": {"p50": _ms(median(quiet)), "p99": _ms(percentile(quiet, 0.99)), "fires": len(quiet)},
        "flooded_ms": {"p50": _ms(median(beside)), "p99": _ms(percentile(beside, 0.99)), "fires": len(beside)},
        "bar_ms": _ms(1.5 * percentile(quiet, 0.99) + beyond),
        **depth,
    }


def weight_change(bench: Bench) -> dict[str, Any]:
    from fairness.models import Tenant

    work_s = 0.05
    for slug in ("one", "other"):
        bench.flood(bench.tenant(slug), int(bench.slots * 40 / work_s), work_s)
    bench.until(bench.is_busy, "the slots are busy")
    time.sleep(WARM_UP_S)
    changed = bench.now()
    Tenant.objects.filter(slug="other").update(weight=4.0)
    time.sleep(12)
    until, runs = bench.now(), bench.runs()
    before = share_error(runs, {"one": 1.0, "other": 1.0}, changed - 5, changed)
    after = {"one": 1.0, "other": 4.0}
    settled = settles_after(runs, after, changed, until, within=0.05, window_s=2.0)
    return {"error_before": before, "settled_s": settled, "error_after": share_error(runs, after, until - 5, until)}


def lone(bench: Bench) -> dict[str, Any]:
    work_s = 0.5
    bench.tenant("heavy", weight=50.0)
    bench.flood(bench.tenant("lone", weight=0.01), int(bench.slots * 60 / work_s), work_s)
    bench.until(bench.is_busy, "the slots are busy")
    time.sleep(WARM_UP_S + 20)
    until, runs = bench.now(), bench.runs()
    return {"of_the_slots": round(1 - bench.idle(runs, until - 20, until), 4), **bench.depth()}


def comeback(bench: Bench) -> dict[str, Any]:
    work_s, weights = 0.05, {"idle": 2.0, "one": 1.0, "other": 1.0}
    idle = bench.tenant("idle", weight=weights["idle"])
    for slug in ("one", "other"):
        bench.flood(bench.tenant(slug, weight=weights[slug]), int(bench.slots * 60 / work_s), work_s)
    bench.until(bench.is_busy, "the slots are busy")
    time.sleep(WARM_UP_S + bench.given.seconds / 2)
    bench.flood(idle, int(bench.slots * 20 / work_s), work_s)
    bench.until(lambda: any(run.tenant == "idle" for run in bench.runs()), "it comes back")
    first = min(run.began for run in bench.runs() if run.tenant == "idle")
    time.sleep(max(0.0, first + 6 - bench.now()))
    return {"error_of_5_s": share_error(bench.runs(), weights, first, first + 5)}


def rate(bench: Bench) -> dict[str, Any]:
    per_s, burst = 100.0, 50
    bench.flood(bench.tenant("limited", rate_per_s=per_s, burst=burst), int(per_s * bench.given.seconds * 1.3), 0.001)
    bench.until(lambda: len(bench.runs()) > 0, "it runs")
    time.sleep(bench.given.seconds / 2)
    if bench.given.kill_redis:
        redis.Redis.from_url(bench.given.redis).flushdb()
    time.sleep(bench.given.seconds / 2)
    instants = sorted(run.began for run in bench.runs())
    span = instants[-1] - instants[0]
    return {
        "nodes": bench.given.nodes,
        "starts": len(instants),
        "seconds": round(span, 1),
        "redis_emptied": bench.given.kill_redis,
        "per_s": round((len(instants) - burst) / span, 2),
        "rate_per_s": per_s,
        "beyond_in_all": round(len(instants) - burst - per_s * span, 1),
        "beyond_in_any_span": round(most_beyond(instants, per_s, burst), 1),  # on their way some overtake others
    }


def strict(bench: Bench) -> dict[str, Any]:
    cap = 5
    folder = Path(os.environ[WITNESSES])
    bench.flood(bench.tenant("capped", max_in_flight=cap, is_strict=True), 2000, 0.15, task=WITNESSED)
    bench.until((folder / "seen").exists, "it runs")
    rng = random.Random(bench.given.seed)
    client = redis.Redis.from_url(bench.given.redis)
    killed, ends = 0, time.monotonic() + bench.given.seconds
    while time.monotonic() < ends:
        with nodes(
            1, bench.given.log, name=f"spare-{killed}", ended_by=signal.SIGKILL
        ):  # it has half of the shards by then
            for _ in range(3):
                time.sleep(1.5)
                client.flushdb()
                worker = rng.choice(list(bench.fleet))
                worker.kill()
                worker.start()
        killed += 1
    seen = [int(line.split()[0]) for line in (folder / "seen").read_text().splitlines()]
    return {
        "cap": cap,
        "most_at_once": max(seen),
        "runs": len(seen),
        "workers_killed": 3 * killed,
        "nodes_killed": killed,
        "redis_emptied": 3 * killed,
    }


SCENARIOS: Mapping[str, Callable[[Bench], dict[str, Any]]] = {
    scenario.__name__: scenario
    for scenario in (shares, five, long, light, million, weight_change, lone, comeback, rate, strict)
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("scenario", choices=SCENARIOS)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--slots", type=int, default=8, help="of each worker")
    arguments.add_argument("--pool", default="threads", choices=["threads", "prefork"])
    arguments.add_argument("--jobs", type=int, default=1_000_000, help="of the flood of `million`")
    arguments.add_argument("--kill-redis", action="store_true", help="`rate`: it is emptied in the middle")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--redis", default=REDIS, help="emptied; none: each node by itself")
    given = arguments.parse_args()
    settings = {"FAIRNESS": "fair", "REDIS_URL": given.redis, "FIRE_LEASE_S": 6.0, "FIRE_GRACE_S": 2.0}
    if given.redis:
        redis.Redis.from_url(given.redis).flushdb()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[WITNESSES] = folder
        with (
            installation(given.amqp, settings | given_settings(given.set)) as installed,
            bench(given, installed) as made,
        ):
            print(json.dumps({"scenario": given.scenario} | SCENARIOS[given.scenario](made)))


@contextmanager
def bench(given: Given, installed: Installation) -> Iterator[Bench]:
    """Everybody is up."""
    with (
        installed.connection() as connection,
        nodes(given.nodes, given.log, ended_by=signal.SIGKILL),
        workers(given.workers, concurrency=given.slots, include=TASKS, log=given.log, pool=given.pool) as fleet,
    ):
        await_owners(connection, nodes=given.nodes)
        made = Bench(given, connection, fleet, given.workers * given.slots)
        made.until(lambda: _reports(connection) >= given.workers, "the workers report")
        yield made


def _reports(connection: psycopg.Connection[Any]) -> int:
    (count,) = connection.execute("SELECT count(*) FROM fairness_workerreport").fetchone() or (0,)
    return int(count)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


if __name__ == "__main__":
    main()
