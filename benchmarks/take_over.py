"""How soon the shards of a node are another's, when it is killed and when it is told to end, under load.

    python -m benchmarks.take_over --rate 1000 --repeat 5

Method: ``rate`` jobs, each due once a second, evenly spread; two scheduler nodes as processes of their own, with the
default settings of the stop. Again and again a second node joins, owns about half of the shards, and is killed
(SIGKILL), or told to end (SIGTERM). A process of its own consumes the queues, without acknowledgement, and writes down
each message: a fire's latency is from due to its arrival there, on the machine's one clock.

- *owned again*: from the signal until every shard's row names the other node, asked every 5 ms
- *on time again*: from the signal to the arrival of the last fire that was more than 250 ms late
- *gap*: the largest latency of any fire that was due from the signal on; also of those that were due while a node
  started, joined, and took half of the shards from the other
- *lost*: occurrences, of all that were due in the run, without a message, and not skipped by their job's policy
- *doubled*: messages of one fire under one fence, of which a ledger could not refuse both
- *refused*: messages under a fence that was lifted since, which no ledger runs

Counted are the messages of the whole run, afterwards. The last line is JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.fire_path import settings_in_force
from benchmarks.harness import (
    WARM_UP_S,
    await_owners,
    create_jobs,
    create_tenants,
    given_settings,
    installation,
    nodes,
    parser,
    start_job_clock,
    stop_job_clock,
)
from benchmarks.machine import commit_mode

LATE_S = 0.25  # the objective
LOOK_S = 0.005
SETTLED_S = 2.0  # before a signal: nothing of the last one is left
WATCHED_S = {signal.SIGKILL: 12.0, signal.SIGTERM: 4.0}
CONSUMER_STARTS_S = 1.0
QUIET_S = 1.0  # without a message: that was the last
STAYS = "stays-0"


class Arrival(NamedTuple):
    job: str
    scheduled_for: datetime
    fence: int
    at: float  # seconds of the Unix epoch


@dataclass(frozen=True, slots=True)
class Disturbed:
    """What was done to the fleet; instants are seconds of the Unix epoch."""

    kind: str
    at: float
    until: float
    shards: int  # that changed hands
    owned_again_s: float


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rate", type=int, default=1000, help="fires a second that are due")
    arguments.add_argument("--repeat", type=int, default=5, help="how often each is done")
    options = arguments.parse_args()
    with (
        installation(options.amqp, given_settings(options.set)) as installed,
        installed.connection() as connection,
        tempfile.TemporaryDirectory() as folder,
    ):
        tenants = create_tenants(options.tenants)
        stop_job_clock()
        create_jobs(options.rate, tenants)
        file = Path(folder) / "arrivals"
        with ExitStack() as until_all_has_come, nodes(1, options.log, name="stays", ended_by=signal.SIGKILL):
            start_job_clock(connection, nodes=1)
            time.sleep(WARM_UP_S)  # the queues are there
            slugs = [tenant.slug for tenant in tenants]
            until_all_has_come.enter_context(consumer(options.amqp, slugs, file))
            time.sleep(CONSUMER_STARTS_S)
            began = time.time()
            done = [each for number in range(options.repeat) for each in disturb(connection, options.log, number)]
            ended = time.time()
            time.sleep(SETTLED_S)  # what was due by then is published
        figures = judge(connection, read_arrivals(file), done, began, ended)
        print(
            json.dumps(
                {"due_per_s": options.rate, "repeat": options.repeat, "tenants": options.tenants, "nodes": 2}
                | figures
                | {"settings": settings_in_force(), "commit_mode": commit_mode(installed.url)}
            )
        )


# -- what is done ---------------------------------------------------------------------------------------------------


def disturb(connection: psycopg.Connection[Any], log: str, number: int) -> Iterator[Disturbed]:
    """A node joins and is killed; another joins and is told to end."""
    for end in (signal.SIGKILL, signal.SIGTERM):
        began = time.time()
        with nodes(1, log, name=f"{end.name.lower()}-{number}") as (pid,):
            await_owners(connection, nodes=2)
            owned = time.time()
            time.sleep(SETTLED_S)
            shards = of_others(connection)
            yield Disturbed("joined", began, time.time(), shards, owned - began)
            at = time.time()
            os.kill(pid, end)
            while of_others(connection):
                if time.time() > at + WATCHED_S[end]:
                    raise SystemExit(f"not every shard was owned again within {WATCHED_S[end]:g} s of {end.name}")
                time.sleep(LOOK_S)
            owned_again_s = time.time() - at
            time.sleep(at + WATCHED_S[end] - time.time())
            kind = "killed" if end is signal.SIGKILL else "terminated"
            yield Disturbed(kind, at, time.time(), shards, owned_again_s)


def of_others(connection: psycopg.Connection[Any]) -> int:
    """Shards that the node which stays does not own."""
    query = "SELECT count(*) FROM scheduling_shard WHERE owner_id IS DISTINCT FROM %s"
    (count,) = connection.execute(query, [STAYS]).fetchone() or (0,)
    return int(count)


# -- what arrives ---------------------------------------------------------------------------------------------------


@contextmanager
def consumer(amqp: str, slugs: Sequence[str], file: Path) -> Iterator[None]:
    """Everything that arrives is written down, by a process of its own; in the end until nothing comes any more."""
    context = multiprocessing.get_context("spawn")
    ends = context.Event()
    process = context.Process(target=consume, args=(amqp, slugs, file, ends))
    process.start()
    try:
        yield
    finally:
        ends.set()
        process.join()


def consume(amqp: str, slugs: Sequence[str], file: Path, ends: Any) -> None:
    import django
    import kombu

    django.setup()
    from project.celery import queue_plan
    from scheduling.core.fire import Lane
    from scheduling.core.message import FENCE, JOB, SCHEDULED_FOR

    plan = queue_plan()
    with file.open("w") as written, kombu.Connection(amqp) as broker:

        def note(message: Any) -> None:
            headers = message.headers
            written.write(f"{headers[JOB]} {headers[SCHEDULED_FOR]} {headers[FENCE]} {time.time()}\n")

        channel: Any = broker.channel()
        for slug in slugs:
            channel.basic_consume(plan.queue_name(slug, Lane.BULK), no_ack=True, callback=note)
        while True:
            try:
                broker.drain_events(timeout=QUIET_S)
            except TimeoutError:
                if ends.is_set():
                    return


def read_arrivals(file: Path) -> list[Arrival]:
    arrivals = []
    for line in file.read_text().splitlines():
        job, scheduled_for, fence, at = line.split(" ")
        arrivals.append(Arrival(job, datetime.fromisoformat(scheduled_for), int(fence), float(at)))
    return arrivals


# -- what it says ---------------------------------------------------------------------------------------------------


def judge(
    connection: psycopg.Connection[Any],
    arrivals: Sequence[Arrival],
    done: Sequence[Disturbed],
    began: float,
    ended: float,
) -> dict[str, Any]:
    real_of = job_clock(connection)
    first: dict[tuple[str, datetime], float] = {}
    for arrival in arrivals:
        first.setdefault((arrival.job, arrival.scheduled_for), arrival.at)
    fired = sorted((real_of(at), arrived_at) for (_, at), arrived_at in first.items())
    figures: dict[str, Any] = {}
    for kind in ("killed", "terminated", "joined"):
        times = [each for each in done if each.kind == kind]
        late = [lateness(each, fired) for each in times]
        figures[kind] = {
            "shards": round(statistics.mean(each.shards for each in times)),
            "owned_again_s": spread([each.owned_again_s for each in times]),
            "on_time_again_s": spread([again_s for again_s, _ in late]),
            "gap_ms": spread([1000 * gap_s for _, gap_s in late]),
        }
    del figures["joined"]["owned_again_s"]  # the start of the process is most of it
    return figures | account(connection, arrivals, real_of, began, ended)


def lateness(disturbed: Disturbed, fired: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Until fires were on time again, and the largest latency; of those, too, that may have been due just before it."""
    of_it = [(due, arrived) for due, arrived in fired if disturbed.at - LATE_S <= due < disturbed.until]
    again_at = max((arrived for due, arrived in of_it if arrived - due > LATE_S), default=disturbed.at)
    return again_at - disturbed.at, max(arrived - due for due, arrived in of_it)


def account(
    connection: psycopg.Connection[Any], arrivals: Sequence[Arrival], real_of: Any, began: float, ended: float
) -> dict[str, int]:
    """Of all occurrences that were due between these instants."""
    due = set()
    for job, anchor, every in connection.execute("SELECT id::text, anchor, every FROM scheduling_job"):
        at = anchor
        while real_of(at) < ended:
            if real_of(at) >= began:
                due.add((job, at))
            at += every
    query = "SELECT job_id::text, scheduled_for FROM scheduling_fire WHERE state = 'skipped'"
    skipped = set(connection.execute(query).fetchall())
    copies = Counter(arrival[:3] for arrival in arrivals if arrival[:2] in due)
    fires = {copy[:2] for copy in copies}
    return {
        "due": len(due),
        "lost": len(due - fires - skipped),
        "skipped": len(due & skipped),
        "doubled": sum(count - 1 for count in copies.values()),
        "refused": len(copies) - len(fires),
    }


def job_clock(connection: psycopg.Connection[Any]) -> Any:
    """A function: job time → seconds of the Unix epoch, by the machine's clock."""
    row = connection.execute("SELECT job_origin, real_origin FROM scheduling_jobclock").fetchone()
    assert row is not None
    shift: timedelta = row[1] - row[0]
    return lambda at: (at + shift).timestamp()


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(values), 3), "max": round(max(values), 3)}


if __name__ == "__main__":
    main()
