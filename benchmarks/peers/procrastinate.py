"""Procrastinate: how many jobs a second it defers into Postgres, which is where its workers take them from.

    .venv-bench/bin/python -m benchmarks.peers.procrastinate --seconds 10

It has no broker: a deferred job is a committed row, as durable as our recorded fire. Three figures. ``defer_per_s``:
one job a call, as an application does. ``batch_defer_per_s``: ``batch_defer_async`` of 1,000 jobs a call.
``fires_per_s``: its periodic deferrer, which is its scheduler, with ``--jobs`` periodic tasks that are due each second;
it defers them one by one, each guarded by a row of its own against a double.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import psycopg

from benchmarks.harness import PLAIN_TASK, database
from benchmarks.peers.arrivals import parser, versions

BATCH = 1000
EACH_SECOND = "* * * * * *"
WARM_UP_S = 1.0
ROWS = "SELECT count(*) FROM procrastinate_jobs"


def main() -> None:
    options = parser(__doc__, jobs=2000).parse_args()
    with database() as url:
        figures = asyncio.run(measured(url, options.jobs, options.seconds))
    print(
        json.dumps(figures | {"seconds": options.seconds, "versions": versions("procrastinate", "psycopg", "croniter")})
    )


async def measured(url: str, jobs: int, seconds: float) -> dict[str, Any]:
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    task = app.task(name=PLAIN_TASK)(_sent)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        async def one() -> None:
            await task.defer_async(timestamp=0)

        async def many() -> None:
            await task.batch_defer_async(*[{"timestamp": n} for n in range(BATCH)])

        figures = {"defer_per_s": await _rate(url, one, seconds), "batch_defer_per_s": await _rate(url, many, seconds)}
        for number in range(jobs):
            app.periodic(cron=EACH_SECOND, periodic_id=f"job-{number}")(task)
        figures["fires_per_s"] = await _periodic(url, app, seconds)
    return figures | {"jobs": jobs, "due_per_s": jobs, "batch": BATCH}


async def _rate(url: str, call: Any, seconds: float) -> float:
    """Rows a second while ``call`` is made over and over."""
    await call()
    before, began = _rows(url), time.monotonic()
    while time.monotonic() - began < seconds:
        await call()
    elapsed_s = time.monotonic() - began
    return round((_rows(url) - before) / elapsed_s, 1)


async def _periodic(url: str, app: Any, seconds: float) -> float:
    """Rows a second that the periodic deferrer of a worker makes; the worker runs none of them."""
    from procrastinate.periodic import PeriodicDeferrer

    deferrer = asyncio.create_task(PeriodicDeferrer(registry=app.periodic_registry).worker())
    try:
        await asyncio.sleep(WARM_UP_S)
        before, began = _rows(url), time.monotonic()
        await asyncio.sleep(seconds)
        elapsed_s = time.monotonic() - began
        rate = round((_rows(url) - before) / elapsed_s, 1)
        if deferrer.done():
            await deferrer  # raises what ended it
    finally:
        deferrer.cancel()
    return rate


def _rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        return int((connection.execute(ROWS).fetchone() or (0,))[0])


async def _sent(timestamp: int) -> None:
    """Never run: there is no worker."""


if __name__ == "__main__":
    main()
