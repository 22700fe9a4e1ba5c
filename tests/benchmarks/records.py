"""Records as a run of `make bench` leaves them."""

from __future__ import annotations

from typing import Any

from benchmarks.kept import Record

ON: dict[str, Any] = {
    "hardware": {"cpus": 2, "cpu": "a CPU", "memory_gib": 23.5, "system": "Linux"},
    "versions": {"postgres": "15.20"},
    "commit_mode": {"fsync": "on"},
    "revision": {"commit": "abc", "date": "2026-03-02T12:00:00+00:00", "dirty": False},
}


def record(name: str, figures: dict[str, Any] | None = None, **others: Any) -> Record:
    return Record(name, f"python -m {name}", figures, on=ON, **others)


def named(*records: Record) -> dict[str, Record]:
    return {each.name: each for each in records}


def fired(name: str, rate: float, **others: Any) -> Record:
    """The record of a fire path."""
    cpu = {"nodes": 50.0, "postgres": 40.0}  # the broker's could not be read
    latency = {"p50": 1.5, "p99": 9.9, "p99.9": 20.0}
    figures = {"fires_per_s": rate, "due_per_s": 20_000, "fire_latency_ms": latency, "cpu_us_per_fire": cpu, "nodes": 1}
    return record(name, figures | others)


def peer(name: str, rate: float, **others: Any) -> Record:
    return record(name, {"fires_per_s": rate, "jobs": 1000, "versions": {"celery": "5.7.0"}} | others)
