"""The thread that tells the engine what its turns go by, and tells others how they went.

::

    terms of tenants, each second ────────┐
    reports of workers, each half second ─┼──> engine ──> standings, every three seconds ──> rows
    nodes that live, each second ─────────┘──> limits and shares

What cannot be read stays as it was known. On a connection of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from threading import Event, Thread

from fairness import standings
from fairness.core.standing import TenantStanding
from scheduling.core.engine import Engine
from scheduling.node.inbox import Inbox
from scheduling.store.connection import Connect, Link
from scheduling.store.fleet import live_nodes, worker_reports
from scheduling.store.port import StoreUnavailable
from scheduling.store.terms import TermsReader

logger = logging.getLogger(__name__)
LOOK_S = 0.5
EACH_S = 1.0  # terms, and nodes
TELL_S = 3.0


class LiveNodes:
    """The names of all nodes that live, as they were known last; this one is always among them."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.names: frozenset[str] = frozenset({node})

    def __call__(self) -> Collection[str]:
        return self.names

    def know(self, names: frozenset[str]) -> None:
        self.names = names | {self._node}


class ShareKeeper:
    """``reads_reports``: lanes are bounded by what workers say."""

    def __init__(
        self, node: str, engine: Engine, inbox: Inbox, connect: Connect, live: LiveNodes, *, reads_reports: bool
    ) -> None:
        self._node, self._engine, self._inbox, self._live = node, engine, inbox, live
        self._reads_reports = reads_reports
        self._link = Link(connect)
        self._terms = TermsReader()
        self._wake = Event()
        self._is_over = self._is_asked = False
        self._at = self._tell_at = 0.0
        self._told: Sequence[TenantStanding] | None = None
        self._is_out = False  # and it was said
        self._thread = Thread(target=self._run, name="shares", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def read_soon(self) -> None:
        """Somebody's terms are not known. Returns at once."""
        self._is_asked = True
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        self._is_over = True
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._is_over:
            self._wake.clear()
            try:
                self._work()
                self._is_out = False
            except StoreUnavailable as problem:
                if not self._is_out:
                    logger.warning("the terms of tenants are taken to be as they were: %s", problem)
                self._is_out = True
            except Exception:
                logger.exception("the terms of tenants, or how they stand, could not be told")
            self._wake.wait(LOOK_S)
        self._link.close()

    def _work(self) -> None:
        now = time.monotonic()
        with self._link() as connection:
            if self._reads_reports:
                reports = worker_reports(connection)
                self._inbox.put(lambda: self._engine.reported(reports))
            if now >= self._at or self._is_asked:
                self._is_asked = False
                self._at = now + EACH_S - LOOK_S / 2
                self._live.know(live_nodes(connection))  # before there are terms: a limit is divided among them
                if self._terms.read(connection):
                    terms, guarded = self._terms.terms, self._terms.guarded
                    self._inbox.put(lambda: self._engine.set_terms(terms, guarded))
            if self._told is not None:
                told, self._told = self._told, None
                standings.write(connection, self._node, told)
        if now >= self._tell_at:
            self._tell_at = now + TELL_S
            self._inbox.put(self._tell)

    def _tell(self) -> None:
        """In the engine's thread."""
        self._told = self._engine.standings()
