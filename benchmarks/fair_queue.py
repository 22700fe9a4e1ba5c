"""How many decisions a second one core makes: whose turn it is among ten thousand tenants, with the limits of each.

    python -m benchmarks.fair_queue [--tenants 10000] [--requests 200000] [--rounds 5] [--quick]

Every tenant has a weight from 1 to 50, a cap and a rate of its own. All are offered as much, so most always have more
waiting than is taken, and the heaviest run dry and come back. A thousand at a time, as many as the pool works off in a
second, are offered, taken, told to have started, and to have finished at another cost than was estimated; so no more
are in flight. Seconds are CPU of this process, whose garbage collector is set as a node's; a figure is the median of
the rounds, before which as much is done that does not count. The last line is JSON.

- ``decisions_per_s``: requests granted by ``take``, each past both gates of its tenant, all of which are open. What it
  takes to tell of their starts and finishes is not in it.
- ``settled_per_s``: the same with that: granted, started, and finished, so that what each cost is settled.
- ``whole_path_per_s``: and with their offers.
- ``with_refusals_per_s``: a rate stands before nearly every request, so that each grant parks its tenant, and a moment
  later wakes it; a refusal counts as a decision.
- ``us``: microseconds a request: to offer, to take, to tell of its start, of its finish (and to drop it); and
  ``dispatch`` is what a node adds before it publishes (offer and take).
- ``one_tenant``: the same for a lone tenant without limits: what a queue costs that has nothing to decide.
- ``million_keys``: that many keys of one tenant, a request each: microseconds to offer, grant and finish one, and how
  many records are left (none).
- ``bytes_per_waiting``, ``bytes_per_tenant``: what tracemalloc sees.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import django

from fairness.core.caps import Cap
from fairness.core.fair_queue import FairQueue
from fairness.core.node import Ticket
from fairness.core.rate import Rate
from fairness.core.tree import FlowPath

BATCH = 1000  # taken at once
NEVER_CLOSED_PER_S = 1e6
CLOSED_PER_S = 10.0


def paths(tenants: int) -> list[FlowPath]:
    return [("bulk", f"tenant-{number}", "task") for number in range(tenants)]


def limited_queue(flows: Sequence[FlowPath], *, rate_per_s: float, burst: int, cap: int) -> FairQueue[int]:
    rng = random.Random(1)
    queue: FairQueue[int] = FairQueue(capacity=BATCH)
    for lane, tenant, _ in flows:
        queue.set_weight((lane, tenant), rng.uniform(1, 50))
        queue.set_gates((lane, tenant), [Cap(cap, lease_s=60), Rate(rate_per_s, burst)])
    return queue


class Costs:
    """Estimates and what comes out, made before the clock runs."""

    def __init__(self, requests: int) -> None:
        rng = random.Random(2)
        self.estimates = [rng.uniform(0.05, 0.5) for _ in range(requests)]
        self.actual = [estimate * rng.uniform(0.5, 2) for estimate in self.estimates]


def seconds(do: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = do()
    return time.process_time() - began, found


def offer_all(queue: FairQueue[int], flows: Sequence[FlowPath], costs: Costs, requests: range) -> None:
    count = len(flows)
    for number in requests:
        queue.offer(number, flows[number % count], costs.estimates[number])


def start_all(queue: FairQueue[int], tickets: Sequence[Ticket[int]]) -> None:
    for ticket in tickets:
        queue.started(ticket)


def finish_all(queue: FairQueue[int], tickets: list[Ticket[int]], costs: Costs, requests: range) -> None:
    for ticket, number in zip(tickets, requests, strict=True):
        queue.finished(ticket, costs.actual[number])
    tickets.clear()


def pass_through(queue: FairQueue[int], flows: Sequence[FlowPath], costs: Costs, requests: range) -> dict[str, float]:
    """Seconds of each step; nothing is in flight before or after."""
    offering, _ = seconds(lambda: offer_all(queue, flows, costs, requests))
    taking, tickets = seconds(lambda: queue.take(0.0, len(requests)))
    starting, _ = seconds(lambda: start_all(queue, tickets))
    finishing, _ = seconds(lambda: finish_all(queue, tickets, costs, requests))
    return {"offer": offering, "take": taking, "start": starting, "finish": finishing}


def rounds(queue: FairQueue[int], flows: Sequence[FlowPath], *, requests: int, count: int) -> dict[str, float]:
    """Median microseconds a request, of the rounds but the first."""
    costs = Costs(requests)
    offer_all(queue, flows, costs, range(requests))  # of which most stays
    found: dict[str, list[float]] = {}
    for _ in range(1 + count):
        gc.collect()
        batches = [
            pass_through(queue, flows, costs, range(first, min(first + BATCH, requests)))
            for first in range(0, requests, BATCH)
        ]
        for name in batches[0]:
            found.setdefault(name, []).append(sum(batch[name] for batch in batches))
    return {name: median(taken[1:]) / requests * 1e6 for name, taken in found.items()}


def refused(flows: Sequence[FlowPath], *, requests: int) -> int:
    """Decisions a second where nearly each grant ends with a refusal, a parked tenant, and its waking up."""
    queue = limited_queue(flows, rate_per_s=CLOSED_PER_S, burst=1, cap=10)
    offer_all(queue, flows, Costs(requests), range(requests))

    def drain() -> int:
        now, granted, wakes = 0.0, 0, 0
        while len(queue):
            tickets = queue.take(now, BATCH)
            granted += len(tickets)
            for ticket in tickets:
                queue.finished(ticket, 0.1)
            if len(tickets) < BATCH:
                now = max(now, queue.next_wake())
                wakes += 1
        return granted

    taken, granted = seconds(drain)
    return round(2 * granted / taken)


def million_keys(keys: int) -> dict[str, Any]:
    queue: FairQueue[int] = FairQueue(capacity=BATCH)
    rng = random.Random(3)

    def come_and_go() -> None:
        for number in range(keys):
            queue.offer(number, ("bulk", "tenant", number), 0.1 + rng.random())
        while tickets := queue.take(0.0, BATCH):
            for ticket in tickets:
                queue.finished(ticket, rng.random())

    taken, _ = seconds(come_and_go)
    return {"keys": keys, "us": round(taken / keys * 1e6, 2), "left": queue.flows}


def memory(flows: Sequence[FlowPath], *, requests: int) -> dict[str, int]:
    tracemalloc.start()
    queue = limited_queue(flows, rate_per_s=NEVER_CLOSED_PER_S, burst=1, cap=1)
    offer_all(queue, flows, Costs(len(flows)), range(len(flows)))
    of_tenants, _ = tracemalloc.get_traced_memory()
    offer_all(queue, flows, Costs(requests), range(requests))
    full, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "bytes_per_tenant": round(of_tenants / len(flows)),
        "bytes_per_waiting": round((full - of_tenants) / requests),
    }


def measure(tenants: int, requests: int, count: int) -> dict[str, Any]:
    flows = paths(tenants)
    queue = limited_queue(flows, rate_per_s=NEVER_CLOSED_PER_S, burst=requests, cap=requests)
    us = rounds(queue, flows, requests=requests, count=count)
    alone = rounds(FairQueue(capacity=BATCH), flows[:1], requests=requests, count=count)
    return {
        "tenants": tenants,
        "requests": requests,
        "decisions_per_s": round(1e6 / us["take"]),
        "settled_per_s": round(1e6 / (us["take"] + us["start"] + us["finish"])),
        "with_refusals_per_s": refused(flows, requests=requests),
        "whole_path_per_s": round(1e6 / sum(us.values())),
        "us": said(us),
        "one_tenant": {"decisions_per_s": round(1e6 / alone["take"]), "us": said(alone)},
        "million_keys": million_keys(5 * requests),
        **memory(flows, requests=requests),
        "python": platform.python_version(),
    }


def collect_as_a_node() -> None:
    """What is there by now is looked through no more, and what comes seldom: as a node that runs."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    django.setup()
    from scheduling.node.node import GC_THRESHOLDS

    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def said(us: dict[str, float]) -> dict[str, float]:
    return {name: round(each, 2) for name, each in us.items()} | {"dispatch": round(us["offer"] + us["take"], 2)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--tenants", type=int, default=10_000)
    arguments.add_argument("--requests", type=int, default=200_000, help="of a round")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--quick", action="store_true", help="a tenth of the requests, three rounds")
    options = arguments.parse_args()
    collect_as_a_node()
    if options.quick:
        print(json.dumps(measure(options.tenants, options.requests // 10, 3)))
    else:
        print(json.dumps(measure(options.tenants, options.requests, options.rounds)))


if __name__ == "__main__":
    main()
