"""What is read while nodes run, and what it says of the time between two readings.

A fire counts when its row is at or below the watermark that Postgres has: confirmed by the broker, and recorded.
``Reading.recorded`` sums the watermarks, which is cheap, and is used for a series; numbers that left ``claimed``
(skipped, parked) are in it. ``count_recorded`` counts the rows themselves: what a benchmark calls its fires.

CPU is that of whole servers, with what others made them do meanwhile: measure on a quiet machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg

from scheduling.core.latency import LatencyHistogram

PERCENTILES = (50, 99, 99.9)

COUNT_RECORDED = """
    WITH progress AS MATERIALIZED (SELECT * FROM scheduling_shardprogress)
    SELECT count(*), extract(epoch FROM statement_timestamp())::float8
    FROM scheduling_fire f JOIN progress p ON p.shard_id = f.shard_id
    WHERE f.state = 'claimed' AND (f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq)
"""
READ = """
    SELECT (SELECT coalesce(sum(seq), 0)::bigint FROM scheduling_shardprogress),
        pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """At one moment. ``cpu_s``: seconds of CPU so far, by group of processes; a group that cannot be read is absent."""

    at: float  # monotonic
    recorded: int
    wal_bytes: int
    latency: LatencyHistogram
    cpu_s: Mapping[str, float]


class Meters:
    """Reads them; ``node_pids`` are the scheduler processes."""

    def __init__(self, connection: psycopg.Connection[Any], *, node_pids: Sequence[int], amqp: str) -> None:
        self._connection = connection
        self._groups = {"nodes": list(node_pids)}
        for name, pid in (("postgres", postmaster(connection)), ("rabbitmq", listener(amqp))):
            if pid is not None:
                self._groups[name] = [pid]

    def read(self) -> Reading:
        recorded, wal_bytes = self._connection.execute(READ).fetchone() or (0, 0)
        return Reading(
            time.monotonic(),
            recorded,
            wal_bytes,
            latency(self._connection),
            {name: sum(map(cpu_of, pids)) for name, pids in self._groups.items()},
        )

    def node_rss_bytes(self) -> int:
        """Resident memory of the nodes together."""
        return sum(psutil.Process(pid).memory_info().rss for pid in self._groups["nodes"])


def count_recorded(connection: psycopg.Connection[Any]) -> tuple[int, float]:
    """Fires at or below their watermark, and the moment (database seconds) at which that was so."""
    count, at = connection.execute(COUNT_RECORDED).fetchone() or (0, 0.0)
    return count, at


def latency(connection: psycopg.Connection[Any]) -> LatencyHistogram:
    """(confirmed − due) of all nodes since their start, as they last wrote it."""
    merged = LatencyHistogram()
    for (values,) in connection.execute("SELECT latency FROM scheduling_node WHERE latency <> '{}'"):
        merged.merge(LatencyHistogram.from_dict(values))
    return merged


def difference(later: LatencyHistogram, earlier: LatencyHistogram) -> LatencyHistogram:
    """What was recorded in between; its maximum may be an earlier one."""
    values, before = later.to_dict(), earlier.to_dict()["buckets"]
    counts = dict(zip(values["buckets"][::2], values["buckets"][1::2], strict=True))
    for bucket, count in zip(before[::2], before[1::2], strict=True):
        counts[bucket] -= count
    flat = [part for bucket, count in sorted(counts.items()) if count for part in (bucket, count)]
    return LatencyHistogram.from_dict(values | {"buckets": flat})


def percentiles_ms(histogram: LatencyHistogram) -> dict[str, float | None]:
    """p50, p99 and p99.9; None where nothing was recorded."""
    found = {f"p{q:g}": histogram.quantile(q / 100) for q in PERCENTILES}
    return {name: None if value is None else round(value * 1000, 1) for name, value in found.items()}


def costs(first: Reading, last: Reading, fires: int) -> dict[str, Any]:
    """What each fire cost: CPU by group, and bytes of the write-ahead log."""
    cpu = {name: last.cpu_s[name] - first.cpu_s[name] for name in last.cpu_s if name in first.cpu_s}
    return {
        "cpu_us_per_fire": {name: round(spent / fires * 1e6, 1) for name, spent in cpu.items()} if fires else None,
        "cpus_busy": {name: round(spent / (last.at - first.at), 2) for name, spent in cpu.items()},
        "wal_bytes_per_fire": round((last.wal_bytes - first.wal_bytes) / fires) if fires else None,
    }


def point(first: Reading, last: Reading, began: float) -> dict[str, Any]:
    """One point of a series: the time since ``began``, and what was between two readings."""
    during, elapsed_s = difference(last.latency, first.latency), last.at - first.at
    cpu = {name: last.cpu_s[name] - first.cpu_s[name] for name in last.cpu_s if name in first.cpu_s}
    return {
        "s": round(last.at - began, 1),
        "fires_per_s": round((last.recorded - first.recorded) / elapsed_s),
        "fire_latency_ms": percentiles_ms(during),
        "cpus_busy": {name: round(spent / elapsed_s, 2) for name, spent in cpu.items()},
    }


def postmaster(connection: psycopg.Connection[Any]) -> int | None:
    """The process of the server, if it is on this machine."""
    try:
        parent = psutil.Process(connection.info.backend_pid).parent()
    except psutil.Error:
        return None
    return parent.pid if parent is not None and "postgres" in parent.name() else None


def listener(url: str, *, default_port: int = 5672) -> int | None:
    """The process that listens on the port of this service, if it is on this machine and may be seen."""
    port = urlsplit(url).port or default_port
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.Error:
        return None
    return next((s.pid for s in sockets if s.status == psutil.CONN_LISTEN and s.laddr[1:] == (port,)), None)


def cpu_of(pid: int) -> float:
    """Seconds of CPU of a process and its descendants, those included that have ended and were waited for."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    spent = 0.0
    for member in family:
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent += times.user + times.system + times.children_user + times.children_system
    return spent
