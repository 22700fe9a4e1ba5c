"""The last line of `make bench`: what was measured, on what, and ours over each of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.catalogue import CAPACITY, EVERY_S, QUICK_EVERY_S
from benchmarks.kept import Record

METHOD = (
    "fires counted once their watermark is recorded in Postgres (fsync and synchronous_commit on), persistent messages "
    "confirmed by quorum queues, mandatory; peers counted by messages that arrived in one quorum queue; queues purged "
    "every second, nothing consumes; more due each second than can be fired; same services in turn; peers' "
    f"jobs are due once a second, those of fire_path once in {EVERY_S} s (quick: {QUICK_EVERY_S} s), so that each fire "
    "is claimed by itself"
)
PUBLISHER = "ceiling_publisher"
LATENCY = ("fire_path_at_80_percent", "fire_path_at_500")
PEERS = ("django_celery_beat_1k", "django_celery_beat_10k", "redbeat", "celery_beat")  # always in the line
OTHER_PEERS = (
    "django_celery_beat_1k_kept_connection",
    "django_celery_beat_1k_confirms",
    "redbeat_confirms",
    "celery_beat_confirms",
    "celery_beat_10k",
    "apscheduler",
    "apscheduler_confirms",
    "procrastinate",
)


def summary(records: Mapping[str, Record], on: Mapping[str, Any], *, quick: bool) -> dict[str, Any]:
    """``ratio`` is ours over theirs; None where one of the two was not measured: ``not_measured`` says why."""
    ours = _figure(records, CAPACITY)
    ceiling = _figure(records, PUBLISHER, "confirmed_per_s")
    peers = [*PEERS, *(name for name in OTHER_PEERS if name in records)]
    found = next((records[name].figures or {} for name in LATENCY if name in records and records[name].figures), {})
    return {
        "hardware": on["hardware"],
        "versions": on["versions"] | _peer_versions(records),
        "commit_mode": on["commit_mode"],
        "revision": on["revision"],
        "method": METHOD,
        "quick": quick,
        "settings": (records[CAPACITY].figures or {}).get("settings") if CAPACITY in records else None,
        "fires_per_s": ours,
        "fire_latency_ms": (found.get("fire_latency_ms") or {}) | {"at_fires_per_s": found.get("due_per_s")},
        "ceiling_publisher_per_s": ceiling,
        "peers_per_s": {name: _figure(records, name) for name in peers},
        "ratio": {name: ratio(ours, _figure(records, name)) for name in peers}
        | {"bare_publisher": ratio(ours, ceiling)},
        "not_measured": {record.name: record.reason for record in records.values() if record.figures is None},
    }


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """To three digits."""
    return None if ours is None or not theirs else float(f"{ours / theirs:.3g}")


def _figure(records: Mapping[str, Record], name: str, figure: str = "fires_per_s") -> float | None:
    return records[name].figure(figure) if name in records else None


def _peer_versions(records: Mapping[str, Record]) -> dict[str, str]:
    """Of the packages that only peers use; what both have is named for ours."""
    found: dict[str, str] = {}
    for record in records.values():
        found |= (record.figures or {}).get("versions", {})
    return {f"peers: {name}": version for name, version in sorted(found.items())}
