"""How right the explanations are: of what waits beside floods, whether each has one reason, and when each starts.

    python -m benchmarks.explain_accuracy [--tenants 20] [--nodes 1] [--sample 10000]

All tenants have far more due than can be served, in the proportion of their weights, so that all are at it until the
end; a third of them are under a rate or a cap of their own, which serves them less than their weight would. Once the
floods have been served for a while, so many of what waits (fires that nodes hold, and jobs that are due and not
claimed) are drawn and explained at once; then all are waited for. The error of one is the difference between when it
was expected to start and when it did, over how long it waited from the explanation on. The last line is JSON.

Where processors, and not slots, are what all wait for, short tasks take longer than is planned with, some floods are
over before others, and what is left is served sooner than anybody could know: then ``--slower 2.5 --slots 16``.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from statistics import median
from typing import Any
from uuid import UUID

import redis

from benchmarks.fair_shares import HOLD, REDIS, WITNESSES, Bench, bench
from benchmarks.harness import given_settings, installation, parser

WARM_UP_S = 20.0
PATIENCE_S = 300.0  # until all that was drawn has started
APART_S = 0.001  # what is due at the same instant goes in no order that could be told
LEAST_S = 0.5  # what starts at once is not measured against its own few milliseconds
WAY_S = 0.15  # from the end of a run until the next one has begun, where a cap allows no other
WORKS_S = (0.02, 0.05, 0.1, 0.2)

WAITING = """
SELECT j.id, f.id FROM scheduling_job j
LEFT JOIN LATERAL (SELECT id, state, started_at FROM scheduling_fire WHERE job_id = j.id LIMIT 1) AS f ON true
WHERE j.task = %s AND (f.id IS NULL OR f.state IN ('claimed', 'parked') AND f.started_at IS NULL)
"""
STARTED = "SELECT job_id, started_at FROM scheduling_fire WHERE job_id = ANY (%s) AND started_at IS NOT NULL"


def floods(bench: Bench, rng: random.Random, sample: int) -> None:
    """Half as many again as are drawn, and what is served before that."""
    count = bench.given.tenants
    weights = [round(10 ** (n / max(1, count - 1)), 3) for n in range(count)]
    works = [bench.given.slower * rng.choice(WORKS_S) for _ in weights]
    limited = {n for n in range(count) if n % 3 == 1}
    spare = 1 + 0.3 * sum(weights[n] for n in limited) / sum(w for n, w in enumerate(weights) if n not in limited)
    per_s = [bench.slots * weight / sum(weights) / work for weight, work in zip(weights, works, strict=True)]
    span_s = WARM_UP_S + 1.5 * sample / sum(per_s)
    for n, (weight, work_s, pace) in enumerate(zip(weights, works, per_s, strict=True)):
        terms: dict[str, Any] = {}
        served = pace * (1 if n in limited else spare)  # what limits leave is the others'
        if n % 6 == 1:
            served = 0.7 * pace
            terms = {"rate_per_s": round(served, 2), "burst": 3}
        elif n % 6 == 4:
            cap = max(1, int(0.7 * pace * work_s))
            served = min(pace, cap / (work_s + WAY_S))
            terms = {"max_in_flight": cap}
        bench.flood(
            bench.tenant(f"bench-{n}", weight=weight, **terms), max(10, int(served * span_s)), work_s, apart_s=APART_S
        )


def explained(bench: Bench, rng: random.Random, sample: int) -> tuple[Mapping[UUID, Any], float, int]:
    """Of what waits, by job; how long it took; and how many had started by the time it was asked for."""
    from scheduling.services.explain import explain_due, explain_fires

    waiting = bench.connection.execute(WAITING, [HOLD]).fetchall()
    drawn = rng.sample(waiting, min(sample, len(waiting)))
    began = time.monotonic()
    of_fires = {fire: job for job, fire in drawn if fire is not None}
    found: dict[UUID, Any] = {of_fires[fire]: said.explained for fire, said in explain_fires(list(of_fires)).items()}
    found |= explain_due([job for job, fire in drawn if fire is None])
    took_s = time.monotonic() - began
    still = {job: said for job, said in found.items() if said.waits and said.why != "sent"}
    return still, took_s, len(drawn) - len(still)


def accuracy(bench: Bench) -> dict[str, Any]:
    rng = random.Random(bench.given.seed)
    floods(bench, rng, bench.given.sample)
    bench.until(bench.is_busy, "the slots are busy")
    time.sleep(WARM_UP_S)
    asked_at = bench.now()
    said, took_s, gone = explained(bench, rng, bench.given.sample)
    jobs = list(said)

    def started() -> dict[UUID, datetime]:
        return dict(bench.connection.execute(STARTED, [jobs]).fetchall())

    deadline = time.monotonic() + PATIENCE_S
    while len(found := started()) < len(jobs) and time.monotonic() < deadline:
        time.sleep(1)
    errors: dict[str, list[float]] = {}
    for job, at in found.items():
        waited_s = at.timestamp() - asked_at
        if waited_s > took_s and (expected := said[job].expected_at) is not None:  # else: it began while we asked
            off_s = abs(expected.timestamp() - at.timestamp())
            errors.setdefault(str(said[job].why), []).append(off_s / max(waited_s, LEAST_S))
    every = [error for some in errors.values() for error in some]
    return {
        "explained": len(said),
        "gone_meanwhile": gone,
        "reasons": dict(Counter(str(one.why) for one in said.values())),
        "without_expected_start": sum(one.expected_at is None for one in said.values()),
        "not_started": len(jobs) - len(found),
        "median_error": round(median(every), 4) if every else None,
        "median_error_by_reason": {why: round(median(some), 4) for why, some in errors.items()},
        "took_s": round(took_s, 2),
        **bench.depth(),
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--sample", type=int, default=10_000)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--slots", type=int, default=8, help="of each worker")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--redis", default=REDIS, help="emptied; none: each node by itself")
    arguments.add_argument("--slower", type=float, default=1.0, help="times as long as else a task takes")
    arguments.set_defaults(pool="threads")
    given = arguments.parse_args()
    settings = {"FAIRNESS": "fair", "REDIS_URL": given.redis}
    if given.redis:
        redis.Redis.from_url(given.redis).flushdb()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[WITNESSES] = folder
        with (
            installation(given.amqp, settings | given_settings(given.set)) as installed,
            bench(given, installed) as made,
        ):
            print(json.dumps(accuracy(made)))


if __name__ == "__main__":
    main()
