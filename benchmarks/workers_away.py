"""All workers are gone for ten minutes, and come back: what became of caps and rates, and of what was due.

    python -m benchmarks.workers_away [--away 600]

Three tenants have more due than they may: one with a cap of 5, one with a strict cap of 5, one with a rate of 20/s. The
workers are killed together, runs and all, and started again after ``--away`` seconds.

- ``at_once``: the most runs of a tenant that were under way at once, by the history of runs; one that was killed is
  under way until that is known. ``at_once_in_the_end``: of those that began in the last 20 s; fewer than the cap, if
  a place of it has leaked.
- ``per_s``: runs of the capped ones in a second before the workers went, and once they are back: a cap that has leaked
  would let fewer through. ``limited_starts``: of the one with a rate, in the last 20 s.
- ``fires``: of the ``jobs``, by their state; ``doubled``: of those, with two finished runs.
- ``held_in_redis``: members of caps in the end: of what is under way.

The last line is JSON.
"""

from __future__ import annotations

import json
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import redis

from benchmarks.fair_measures import Ran
from benchmarks.fair_shares import REDIS, TASKS, Bench
from benchmarks.harness import await_owners, given_settings, installation, nodes, parser
from benchmarks.workers import workers

CAP, PER_S, WORK_S = 5, 20.0, 0.15
BEFORE_S, AFTER_S, COUNTED_S = 25.0, 60.0, 20.0
RUNS_EACH = round(CAP / WORK_S * (BEFORE_S + AFTER_S + 5))  # jobs of a capped tenant, which has more due to the end
STATES = "SELECT state, count(*) FROM scheduling_fire GROUP BY 1"
DOUBLED = """
SELECT count(*) FROM (
    SELECT fire_id FROM scheduling_jobrun WHERE state = 'succeeded' GROUP BY 1 HAVING count(*) > 1) twice
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--away", type=float, default=600.0, help="seconds without workers")
    arguments.add_argument("--redis", default=REDIS, help="emptied")
    given = arguments.parse_args()
    redis.Redis.from_url(given.redis).flushdb()
    settings = {"FAIRNESS": "fair", "REDIS_URL": given.redis, "FIRE_LEASE_S": 6.0, "FIRE_GRACE_S": 2.0}
    with (
        installation(given.amqp, settings | given_settings(given.set)) as installed,
        installed.connection() as connection,
        nodes(2, given.log, ended_by=signal.SIGKILL),
        workers(2, concurrency=8, include=TASKS, log=given.log, pool="threads") as fleet,
    ):
        await_owners(connection, nodes=2)
        made = Bench(given, connection, fleet, slots=16)
        print(json.dumps(away(made, given.away, redis.Redis.from_url(given.redis))))


def away(bench: Bench, away_s: float, client: Any) -> dict[str, Any]:
    limited = int(PER_S * (BEFORE_S + away_s + AFTER_S))
    jobs = 2 * RUNS_EACH + limited
    bench.flood(bench.tenant("capped", max_in_flight=CAP), RUNS_EACH, WORK_S)
    bench.flood(bench.tenant("strict", max_in_flight=CAP, is_strict=True), RUNS_EACH, WORK_S)
    bench.flood(bench.tenant("limited", rate_per_s=PER_S, burst=10), limited, 0.01)
    bench.until(lambda: len(bench.runs()) > 0, "it runs")
    time.sleep(BEFORE_S)
    for worker in bench.fleet:
        worker.kill()
    went = bench.now()
    time.sleep(away_s)
    for worker in bench.fleet:
        worker.start()
    time.sleep(AFTER_S)
    now, runs = bench.now(), bench.runs()
    states = dict(bench.connection.execute(STATES).fetchall())
    (doubled,) = bench.connection.execute(DOUBLED).fetchone() or (0,)
    by = {slug: [run for run in runs if run.tenant == slug] for slug in ("capped", "strict", "limited")}
    capped = [slug for slug in by if slug != "limited"]
    return {
        "away_s": away_s,
        "cap": CAP,
        "at_once": {slug: most_at_once(by[slug]) for slug in capped},
        "at_once_in_the_end": {
            slug: most_at_once(run for run in by[slug] if run.began >= now - COUNTED_S) for slug in capped
        },
        "per_s": {
            slug: {
                "before": round(in_span(by[slug], went - COUNTED_S, went) / COUNTED_S, 1),
                "after": round(in_span(by[slug], now - COUNTED_S, now) / COUNTED_S, 1),
            }
            for slug in capped
        },
        "limited_starts": in_span(by["limited"], now - COUNTED_S, now),
        "jobs": jobs,
        "fires": states,
        "doubled": doubled,
        "held_in_redis": sum(client.zcard(key) for key in client.scan_iter("*:cap:*")),
    }


def in_span(runs: Iterable[Ran], since: float, until: float) -> int:
    """How many began in it."""
    return sum(since <= run.began < until for run in runs)


def most_at_once(runs: Iterable[Ran]) -> int:
    """How many were under way at once; one that ends as another begins makes room for it."""
    changes: dict[float, int] = defaultdict(int)
    for run in runs:
        changes[run.began] += 1
        changes[run.ended] -= 1
    most = at_once = 0
    for _, change in sorted(changes.items()):
        at_once += change
        most = max(most, at_once)
    return most


if __name__ == "__main__":
    main()
