"""Watches from outside, past all proxies: who owns each shard, and how late the fires are.

*Late* is what is due and not confirmed by the broker: a job that nobody claims, a claimed fire beyond its shard's
watermark, or one that waits for the broker. What waits for its tenant's share does so because all workers are busy; and
what tenants have that are called ``flood…`` may be late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import psycopg

NAME = "fairbeat-chaos"  # of its sessions, which no fault ends
EVERY_S = 0.1
LATE_S = 1.0

OTHERS = "tenant_id NOT IN (SELECT id FROM fairness_tenant WHERE slug LIKE 'flood%')"
LOOK = f"""
SELECT
    (SELECT array_agg(owner_id) FROM scheduling_shard),
    coalesce(extract(epoch FROM clock_timestamp() - least(
        (SELECT min(next_fire_at) FROM scheduling_job j WHERE deleted_at IS NULL AND {OTHERS}
         AND NOT EXISTS (SELECT FROM scheduling_hold h WHERE (h.shard_id, h.tenant_id) = (j.shard_id, j.tenant_id))),
        (SELECT min(f.fire_at) FROM scheduling_fire f JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
         WHERE f.state = 'claimed' AND (f.seq_epoch, f.seq) > (p.seq_epoch, p.seq) AND {OTHERS}),
        (SELECT min(fire_at) FROM scheduling_fire WHERE state = 'parked' AND reason = 'turn' AND {OTHERS})
    )), 0)::float8
"""


@dataclass(frozen=True, slots=True)
class Look:
    """``at`` is monotonic seconds, ``late_s`` negative where nothing is due."""

    at: float
    owners: tuple[str | None, ...]
    late_s: float

    def is_owned_by(self, living: Collection[str]) -> bool:
        return bool(self.owners) and all(owner in living for owner in self.owners)


class Monitor:
    """One thread that looks every ``EVERY_S``."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._changed = threading.Condition()
        self._last: Look | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def wait(self, is_so: Callable[[Look], bool], *, until: float, meanwhile: Callable[[], None]) -> Look | None:
        """The first look, begun from now on, that is so; None where none was by ``until`` (monotonic seconds)."""
        since = time.monotonic()
        while time.monotonic() < until:
            meanwhile()
            with self._changed:
                self._changed.wait(min(EVERY_S, max(0.0, until - time.monotonic())))
                last = self._last
            if last is not None and last.at >= since and is_so(last):
                return last
        return None

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, application_name=NAME) as connection:
                    while not self._stopping.wait(EVERY_S):
                        self._look(connection)
            except psycopg.Error:
                self._stopping.wait(EVERY_S)  # Postgres is down: there is nothing to see

    def _look(self, connection: psycopg.Connection) -> None:
        at = time.monotonic()
        owners, late_s = connection.execute(LOOK).fetchone() or ((), 0.0)
        with self._changed:
            self._last = Look(at, tuple(owners), late_s)
            self._changed.notify_all()
