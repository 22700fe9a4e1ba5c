"""The workers' side of fairness: shares of flooded queues, throughput, and tasks that run long, against stock Celery.

    python -m benchmarks.fair_door
    python -m benchmarks.fair_door --quick

Method: a database and queues of the run's own; the messages are Celery's own, in the tenants' quorum queues before a
worker starts. ``fair`` is a worker with FAIRNESS=queues that follows the queues in use; ``stock`` is Celery alone, with
``-Q``: it has none of this project's steps. Both acknowledge late.

``shares``: tenants of weights 1, 3 and 6 are flooded with tasks that sleep; shares of slot-time between two and twelve
seconds after the first task began. ``throughput``: one queue of tasks that do nothing; ``flood``: five queues, of
weights 1, 2, 3, 6 and 12; ``flood_10_ms``: of tasks that sleep for 10 ms. Fair and stock, each with queues of its own,
run by turns of a second and a half while the other one is stopped, five turns each in an order that alternates: so both
meet the same machine. Tasks a second in a turn but for its first third of a second; ``ratios``: fair to stock in each
pair of turns, which vary by a fifth and more (``--rounds 11`` tells more); ``ratio``: their median. ``cpu_us``: what a
worker's processes, and of them its main one, took of each task.
``lone``: the part of all slots that one tenant of small weight takes beside nine that are idle. ``long``: two workers,
and one queue of tasks of 0.8 and 0.2 s by turns, four for each slot: ``waited_beside_idle_s`` are the slot-seconds that
were idle while not all had begun. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import kombu

from benchmarks.fair_door_bench import POOLS, SLOTS, Bench, Running, until
from benchmarks.fair_measures import slot_time
from benchmarks.harness import installation
from benchmarks.machine import hardware

WEIGHTS = {"one": 1.0, "three": 3.0, "six": 6.0}
FIVE = {f"weight-{weight}": float(weight) for weight in (1, 2, 3, 6, 12)}
FLOODS = {"throughput": ({"lone": 1.0}, 0.0), "flood": (FIVE, 0.0), "flood_10_ms": (FIVE, 0.01)}  # weights, task_s
NAP_S = 0.05
LONGS_S = (0.8, 0.2)  # by turns, and so delivered by turns: to one worker the longer ones
WARM_UP_S, MEASURED_S = 2.0, 10.0
TURN_S, RESUMED_S = 1.5, 0.3
MOST_PER_S = 3500.0  # of tasks that do nothing


class Speed(NamedTuple):
    per_s: float
    cpu_us: float  # of all processes of the worker, for each task
    main_cpu_us: float


def shares(bench: Bench, pool: str, *, is_fair: bool) -> dict[str, Any]:
    """Each tenant's share of slot-time."""
    with bench.tenants(WEIGHTS) as queues:
        for slug, queue in queues.items():
            bench.fill(slug, queue, int((WARM_UP_S + MEASURED_S + 4) / NAP_S * SLOTS), NAP_S)
        with bench.workers(1, pool, queues, is_fair=is_fair) as running:
            served = _served(running)
    total = sum(served.values())
    found = {slug.rpartition("-")[0]: round(served.get(slug, 0.0) / total, 3) for slug in queues}
    return found | {"busy": round(total / (SLOTS * MEASURED_S), 3)}


def lone(bench: Bench, pool: str, *, is_fair: bool) -> float:
    """The part of the slots that one tenant takes while nine heavier ones are idle."""
    with bench.tenants({"lone": 1.0} | {f"idle{number}": 10.0 for number in range(9)}) as queues:
        slug, queue = next(iter(queues.items()))
        bench.fill(slug, queue, int((WARM_UP_S + MEASURED_S + 2) / NAP_S * SLOTS), NAP_S)
        with bench.workers(1, pool, queues, is_fair=is_fair) as running:
            return round(sum(_served(running).values()) / (SLOTS * MEASURED_S), 3)


def _served(running: Running) -> dict[str, float]:
    """Each tenant's slot-time once they are warm."""
    until(lambda: running.count, "the first task")
    since = running.naps()[0].ran.began + WARM_UP_S
    until(lambda: time.time() > since + MEASURED_S + 4 * NAP_S, "the last of them has ended, and has said so")
    return slot_time([nap.ran for nap in running.naps()], since, since + MEASURED_S)


def throughput(bench: Bench, pool: str, weights: Mapping[str, float], nap_s: float, rounds: int) -> dict[str, Any]:
    """Of queues that hold as much as is their weight's."""
    per_s = min(MOST_PER_S, SLOTS / nap_s) if nap_s else MOST_PER_S
    messages = per_s * (WARM_UP_S + rounds * (RESUMED_S + TURN_S) + 1)
    with ExitStack() as stack:
        sides: dict[str, Running] = {}
        for name in ("fair", "stock"):
            queues = stack.enter_context(bench.tenants(weights, are_in_use=name == "fair"))
            for (slug, queue), weight in zip(queues.items(), weights.values(), strict=True):
                bench.fill(slug, queue, round(messages * weight / sum(weights.values())), nap_s)
            sides[name] = stack.enter_context(bench.workers(1, pool, queues, is_fair=name == "fair"))
            until(lambda running=sides[name]: running.count, "the first task")
            time.sleep(WARM_UP_S)
            sides[name].stand_still()
        turns: dict[str, list[Speed]] = {name: [] for name in sides}
        for number in range(rounds):
            for name in ("fair", "stock") if number % 2 else ("stock", "fair"):
                turns[name].append(_turn(sides[name]))
        if any(side.count > 0.99 * messages for side in sides.values()):
            raise SystemExit(f"all of {messages:.0f} messages have run before the end")
    return _compared(turns)


def _turn(running: Running) -> Speed:
    """Of one that stands still before and after."""
    running.go_on()
    time.sleep(RESUMED_S)
    since, before, spent = time.monotonic(), running.count, running.cpu_s()
    time.sleep(TURN_S)
    count, took_s, spent_then = running.count - before, time.monotonic() - since, running.cpu_s()
    running.stand_still()
    return Speed(count / took_s, *(1e6 * (then - first) / count for first, then in zip(spent, spent_then, strict=True)))


def _compared(turns: Mapping[str, list[Speed]]) -> dict[str, Any]:
    medians = {name: Speed(*map(statistics.median, zip(*each, strict=True))) for name, each in turns.items()}
    found: dict[str, Any] = {
        field: {name: round(getattr(speed, field)) for name, speed in medians.items()} for field in Speed._fields
    }
    ratios = sorted(fair.per_s / stock.per_s for fair, stock in zip(turns["fair"], turns["stock"], strict=True))
    return found | {"ratio": round(statistics.median(ratios), 3), "ratios": [round(ratio, 2) for ratio in ratios]}


def long(bench: Bench, pool: str, *, is_fair: bool) -> dict[str, Any]:
    """How long a slot stood idle while a message waited, of two workers."""
    slots, count = 2 * SLOTS, 8 * SLOTS
    with bench.tenants({"long": 1.0}) as queues:
        ((slug, queue),) = queues.items()
        bench.fill(slug, queue, slots, LONGS_S[0])
        with bench.workers(2, pool, queues, is_fair=is_fair) as running:
            wanted = 0 if is_fair else 2  # of an asked queue there are no consumers
            until(lambda: running.count == slots and bench.consumers(queue) == wanted, "both workers")
            for number in range(count):
                bench.send(slug, queue, 1, LONGS_S[number % len(LONGS_S)])
            until(lambda: running.count == slots + count, "all tasks")
            naps = running.naps()[slots:]
    begun = {worker: min(nap.ran.began for nap in naps if nap.worker == worker) for worker in ("w0", "w1")}
    since, until_last = max(begun.values()), max(nap.ran.began for nap in naps)
    busy_s = sum(slot_time([nap.ran for nap in naps], since, until_last).values())
    return {
        "waited_beside_idle_s": round(slots * (until_last - since) - busy_s, 3),
        "took_s": round(max(nap.ran.ended for nap in naps) - min(nap.ran.began for nap in naps), 2),
        "ideal_s": count * statistics.mean(LONGS_S) / slots,
    }


def compare(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {"ideal": {name: weight / sum(WEIGHTS.values()) for name, weight in WEIGHTS.items()}}
    for pool in options.pool:
        found: dict[str, Any] = {}
        if "shares" in options.only:
            found["shares"] = {"fair": shares(bench, pool, is_fair=True), "stock": shares(bench, pool, is_fair=False)}
        found |= {
            part: throughput(bench, pool, *FLOODS[part], options.rounds) for part in FLOODS if part in options.only
        }
        if "lone" in options.only:
            found["lone"] = {"fair": lone(bench, pool, is_fair=True), "stock": lone(bench, pool, is_fair=False)}
        if "long" in options.only:
            found["long"] = {"fair": long(bench, pool, is_fair=True), "stock": long(bench, pool, is_fair=False)}
        print(f"{pool}: {json.dumps(found)}", file=sys.stderr)
        figures[pool] = found
    return figures | {"hardware": hardware()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--pool", choices=[*POOLS], action="append", help="only this one")
    parts = ["shares", *FLOODS, "lone", "long"]
    arguments.add_argument("--only", choices=parts, action="append", help="only this part")
    arguments.add_argument("--rounds", type=int, help="turns of throughput (5; quick: 1)")
    arguments.add_argument("--quick", action="store_true", help="prefork only")
    arguments.add_argument("--amqp", default=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"))
    arguments.add_argument("--log", default=os.devnull)
    options = arguments.parse_args()
    options.pool = options.pool or (["prefork"] if options.quick else [*POOLS])
    options.only = options.only or parts
    options.rounds = options.rounds or (1 if options.quick else 5)
    os.environ["FAIRBEAT_FAIRNESS"] = "fair"
    with (
        installation(options.amqp),
        kombu.Connection(options.amqp) as broker,
        tempfile.TemporaryDirectory() as folder,
    ):
        print(json.dumps(compare(Bench(options, broker, Path(folder)), options)))


if __name__ == "__main__":
    main()
