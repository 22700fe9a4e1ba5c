"""What limits and shares cost that nodes have in common over Redis: checks a second, and how long an exchange takes.

    python -m benchmarks.shared_limits [--requests 20000] [--rounds 5] [--calls 200] [--quick]

A Redis of its own (the embedded one). Requests of 50 tenants, in batches of 100 and of 1,000, all of which are
admitted: under a rate, under a cap, under both; figures are medians of the rounds. ``per_s``: by the clock on the wall,
one node that asks one batch after the other. ``redis_us`` and ``node_us``: CPU of Redis and of this process, each
request. Then four nodes tell in turn of two lanes, of each 32 waiting tenants and 100 charges among ten thousand
tenants (as at 1,000 grants a second on each node): milliseconds of a call, and CPU of Redis for one. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import redis

from fairness.core.admission import Request
from fairness.core.exchange import Charge, Row, Told
from fairness.core.terms import Bound
from fairness.limiting.redis_exchange import RedisExchange
from fairness.limiting.redis_limiter import RedisLimiter
from project.environment import valkey

TENANTS = 50
MANY = 10_000_000
PATIENT_S = 5.0  # what is measured does not degrade
BOUNDS = {
    "rate": Bound(rate_per_s=1e6, burst=MANY),
    "cap": Bound(max_in_flight=MANY),
    "rate_and_cap": Bound(rate_per_s=1e6, burst=MANY, max_in_flight=MANY),
}
NODES, SHARING, ROWS, CHARGES = 4, 10_000, 32, 100


class Redis:
    def __init__(self, url: str) -> None:
        self.url = url
        self._client = redis.Redis.from_url(url)

    def cpu_s(self) -> float:
        info: Any = self._client.info("cpu")
        return float(info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"])


def checks(server: Redis, bound: Bound, *, batch: int, requests: int, name: str) -> dict[str, float]:
    limiter = RedisLimiter(server.url, prefix=name, node="n", nodes=lambda: ["n"], timeout_s=PATIENT_S)
    limiter.hold([])
    asked = [
        Request(f"0198c0de-0000-7000-8000-{number:012d}", tenant, "bulk", "task", [((tenant, "", ""), bound)])
        for number in range(requests)
        for tenant in [number % TENANTS]
    ]
    time.sleep(1.0)  # buckets fill
    wall, cpu, of_redis = time.perf_counter(), time.process_time(), server.cpu_s()
    for first in range(0, requests, batch):
        limiter.admit(asked[first : first + batch])
    took_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    redis_s = server.cpu_s() - of_redis
    limiter.close()
    return {"per_s": requests / took_s, "node_us": cpu_s / requests * 1e6, "redis_us": redis_s / requests * 1e6}


def exchanges(server: Redis, *, calls: int) -> dict[str, float]:
    rng = random.Random(1)
    nodes = [
        RedisExchange(server.url, prefix="shares", node=f"n{number}", nodes=lambda: ["n"], timeout_s=PATIENT_S)
        for number in range(NODES)
    ]
    for first in range(0, SHARING, 500):
        nodes[0].exchange([_told("bulk", range(first, first + 500), rng), _told("transactional", (), rng)])
    took_ms = []
    of_redis = server.cpu_s()
    for number in range(calls):
        tenants = rng.sample(range(SHARING), CHARGES)
        told = [_told(lane, tenants, rng) for lane in ("bulk", "transactional")]
        began = time.perf_counter()
        nodes[number % NODES].exchange(told)
        took_ms.append((time.perf_counter() - began) * 1000)
    redis_ms = (server.cpu_s() - of_redis) / calls * 1000
    for node in nodes:
        node.close()
    return {"p50_ms": median(took_ms), "p99_ms": quantiles(took_ms, n=100)[98], "redis_ms": redis_ms}


def _told(lane: str, charged: Any, rng: random.Random) -> Told:
    waiting = rng.sample(range(SHARING), ROWS)
    return Told(
        lane=lane,
        charges={tenant: Charge(rng.random()) for tenant in charged},
        rows=[Row(tenant, rng.random(), 1.0, 0.1, 5, 1) for tenant in waiting],
        virtual_time=0.0,
        in_flight=25,
        wants=1000,
        depth=100,
    )


def measure(server: Redis, *, requests: int, rounds: int, calls: int) -> dict[str, Any]:
    found: dict[str, Any] = {"requests": requests}
    for batch in (100, 1000):
        for name, bound in BOUNDS.items():
            each = [
                checks(server, bound, batch=batch, requests=requests, name=f"{name}-{batch}-{number}")
                for number in range(rounds)
            ]
            medians = {key: round(median(one[key] for one in each), 2) for key in each[0]}
            found[f"{name}_in_{batch}s"] = medians | {"per_s": round(medians["per_s"])}
    return found | {"exchange": {key: round(value, 2) for key, value in exchanges(server, calls=calls).items()}}


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--requests", type=int, default=20_000, help="of a round")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--calls", type=int, default=200, help="exchanges")
    arguments.add_argument("--quick", action="store_true", help="one round of a quarter")
    options = arguments.parse_args()
    requests, rounds = (options.requests // 4, 1) if options.quick else (options.requests, options.rounds)
    with tempfile.TemporaryDirectory() as folder, valkey.running(Path(folder)) as url:
        print(json.dumps(measure(Redis(url), requests=requests, rounds=rounds, calls=options.calls)))


if __name__ == "__main__":
    main()
