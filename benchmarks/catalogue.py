"""Every benchmark of `make bench`: its name, its program, and how it is called in a full and in a quick run.

Those that are compared with each other run next to each other. An argument such as ``80%`` is that share of the
capacity that ``fire_path`` has just measured.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

CAPACITY = "fire_path"
EVERY_S, QUICK_EVERY_S = 4, 2  # between the fires of a job of it


@dataclass(frozen=True, slots=True)
class Benchmark:
    """``quick`` None: a quick run leaves it out. ``peer``: it runs in the environment of the peers."""

    name: str
    module: str
    full: str
    quick: str | None = None
    peer: bool = False
    limit_s: float = 300.0

    def arguments(self, *, quick: bool, capacity: float | None) -> list[str]:
        """Raises ValueError where a share of the capacity is asked for, and that is not known."""
        return [_share(part, capacity) for part in shlex.split((self.quick if quick else self.full) or "")]


def _share(argument: str, capacity: float | None) -> str:
    if not argument.endswith("%"):
        return argument
    if capacity is None:
        raise ValueError(f"{argument} of the capacity: {CAPACITY} has not measured it")
    return str(int(float(argument[:-1]) / 100 * capacity))


def _peer(name: str, module: str, full: str, quick: str | None = None) -> Benchmark:
    return Benchmark(name, f"benchmarks.peers.{module}", full, quick, peer=True)


BENCHMARKS: Sequence[Benchmark] = (
    Benchmark(
        CAPACITY,
        "benchmarks.fire_path",
        # Above what it can do, by little: each job is claimed once, and has been before.
        f"--rate 15000 --every {EVERY_S} --warm-up 15 --seconds 20",
        f"--rate 14000 --every {QUICK_EVERY_S} --warm-up 3 --seconds 4",
    ),
    Benchmark("ceiling_publisher", "benchmarks.ceilings", "publisher --seconds 20", "publisher --seconds 3"),
    Benchmark(
        "fire_path_at_80_percent",
        "benchmarks.fire_path",
        "--rate 80% --seconds 30",
        "--rate 80% --seconds 3 --warm-up 1",
    ),
    _peer("redbeat", "redbeat", "--jobs 2000 --seconds 20", "--jobs 2000 --seconds 2"),
    _peer("celery_beat", "celery_beat", "--jobs 1250 --seconds 20", "--jobs 1250 --seconds 2"),
    _peer("django_celery_beat_1k", "django_celery_beat", "--jobs 1000 --seconds 20", "--jobs 1000 --seconds 2"),
    _peer("django_celery_beat_10k", "django_celery_beat", "--jobs 10000 --seconds 20", "--jobs 10000 --seconds 2"),
    Benchmark("fire_path_at_500", "benchmarks.fire_path", "--rate 500 --seconds 30"),
    _peer("django_celery_beat_1k_kept_connection", "django_celery_beat", "--jobs 1000 --keep-connection --seconds 20"),
    _peer("django_celery_beat_1k_confirms", "django_celery_beat", "--jobs 1000 --confirms --seconds 20"),
    _peer("redbeat_confirms", "redbeat", "--jobs 2000 --confirms --seconds 20"),
    _peer("celery_beat_confirms", "celery_beat", "--jobs 1250 --confirms --seconds 20"),
    _peer("celery_beat_10k", "celery_beat", "--jobs 10000 --seconds 20"),
    _peer("apscheduler", "apscheduler", "--jobs 2000 --seconds 20"),
    _peer("apscheduler_confirms", "apscheduler", "--jobs 2000 --confirms --seconds 20"),
    _peer("procrastinate", "procrastinate", "--jobs 2000 --seconds 10"),
    Benchmark("ceiling_postgres", "benchmarks.ceilings", "postgres --seconds 20"),
    Benchmark("burst", "benchmarks.burst", "--jobs 100000"),
    Benchmark("fire_path_one_node", "benchmarks.fire_path", "--rate 4000 --nodes 1 --seconds 20"),
    Benchmark("fire_path_four_nodes", "benchmarks.fire_path", "--rate 4000 --nodes 4 --seconds 20 --warm-up 8"),
    Benchmark("take_over", "benchmarks.take_over", "--rate 1000 --repeat 5", limit_s=600),
    Benchmark("start_latency", "benchmarks.start_latency", "--jobs 200"),
    Benchmark("edit_latency", "benchmarks.edit_latency", "--edits 100", "--edits 25"),
    Benchmark("publisher", "benchmarks.publisher", "--messages 100000"),
    Benchmark("timing_wheel", "benchmarks.timing_wheel", "", limit_s=900),
    Benchmark("fair_queue", "benchmarks.fair_queue", ""),
    Benchmark("fair_simulation", "benchmarks.fair_simulation", "", limit_s=900),
    Benchmark("shared_limits", "benchmarks.shared_limits", ""),
    Benchmark("workers_away", "benchmarks.workers_away", "", limit_s=1200),
    Benchmark("limits_cost", "benchmarks.limits_cost", "", limit_s=600),
    Benchmark("memory", "benchmarks.memory", "", limit_s=900),
    Benchmark("recurrence", "benchmarks.recurrence", ""),
    Benchmark("copy_jobs", "benchmarks.copy_jobs", ""),
    Benchmark("worker_path", "benchmarks.worker_path", "", limit_s=900),
    Benchmark("fair_door", "benchmarks.fair_door", "", limit_s=1500),
    Benchmark("ledger_cost", "benchmarks.ledger_cost", "--fires 4000"),
    Benchmark("deliveries", "benchmarks.deliveries", "--messages 10000 --copies 3 --workers 4", limit_s=900),
    Benchmark("worker_death", "benchmarks.worker_death", "--repeat 5"),
    Benchmark(
        "redrive", "benchmarks.redrive", "--letters 100000 --rate 500 --redrive-per-s 300 --seconds 20", limit_s=900
    ),
    Benchmark(
        "fire_path_limited", "benchmarks.fire_path", "--rate 15000 --every 4 --limited 20 --warm-up 15 --seconds 20"
    ),
    Benchmark("fair_five_threads", "benchmarks.fair_shares", "five --seconds 60"),
    Benchmark("fair_five_prefork", "benchmarks.fair_shares", "five --pool prefork --slots 4 --seconds 60"),
    Benchmark("fair_long_tasks", "benchmarks.fair_shares", "long --seconds 60"),
    Benchmark("fair_million", "benchmarks.fair_shares", "million --workers 4 --seconds 60", limit_s=600),
    Benchmark("fair_shares", "benchmarks.fair_shares", "shares --seconds 60"),
    Benchmark("fair_shares_four_nodes", "benchmarks.fair_shares", "shares --tenants 8 --nodes 4 --seconds 60"),
    Benchmark("fair_light_tenant", "benchmarks.fair_shares", "light --seconds 60"),
    Benchmark("fair_weight_change", "benchmarks.fair_shares", "weight_change"),
    Benchmark("fair_lone_tenant", "benchmarks.fair_shares", "lone"),
    Benchmark("fair_comeback", "benchmarks.fair_shares", "comeback --seconds 60"),
    Benchmark("fair_rate_one_node", "benchmarks.fair_shares", "rate --nodes 1"),
    Benchmark("fair_rate_four_nodes", "benchmarks.fair_shares", "rate --nodes 4"),
    Benchmark("fair_rate_sixteen_nodes", "benchmarks.fair_shares", "rate --nodes 16", limit_s=600),
    Benchmark("fair_strict_cap", "benchmarks.fair_shares", "strict --nodes 2 --seconds 60"),
    Benchmark("explain_accuracy", "benchmarks.explain_accuracy", "", limit_s=600),
    Benchmark("ten_thousand_tenants", "benchmarks.ten_thousand_tenants", "--tenants 10000 --seconds 60", limit_s=900),
    Benchmark("growth", "benchmarks.growth", "--sizes 10000,100000,1000000,10000000", limit_s=5400),
    Benchmark("growth_shards", "benchmarks.growth", "--sizes 100000 --shards 1,16,64", limit_s=900),
    Benchmark("fire_path_sustained", "benchmarks.fire_path", "--rate 10200 --minutes 10", limit_s=900),
    Benchmark("held_snapshot", "benchmarks.held_snapshot", "--minutes 10", limit_s=1800),
)
