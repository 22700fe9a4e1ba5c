"""What a worker reads from Postgres, and writes there: which queues are in use, tenants' weights, and its own report.

A thread with a connection of its own, so that a database that is slow, or away, never holds up the worker: what was
known stays, and is said once. A report is a row that is written each second; a worker that ends says so in it, and
leaves the row.

What the thread computes, the worker's loop waits for. So it sends plain statements, and no more is done with an answer
that is the same as the one before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from celery.utils.log import get_logger

from fairness.core.door import Figures
from fairness.core.terms import TRANSACTIONAL

POLL_S = 0.5
REPORT_S = 1.0
ENDS_S = 5.0  # how long it is waited for

QUEUES = """
    SELECT q.name, q.lane, t.slug, t.weight, t.transactional_weight
    FROM fairness_tenantqueue q LEFT JOIN fairness_tenant t ON t.id = q.tenant_id
    WHERE q.retired_at IS NULL ORDER BY q.name
"""
TENANTS = "SELECT slug, weight, transactional_weight FROM fairness_tenant WHERE slug = ANY (%s) ORDER BY slug"
REPORT = """
    INSERT INTO fairness_workerreport
        (name, started_at, seen_at, interval_s, slots, busy, waiting, idle_s, ran, ran_s, is_leaving)
    VALUES (%s, %s, clock_timestamp(), %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (name) DO UPDATE SET
        (started_at, seen_at, interval_s, slots, busy, waiting, idle_s, ran, ran_s, is_leaving) =
        (excluded.started_at, excluded.seen_at, excluded.interval_s, excluded.slots, excluded.busy, excluded.waiting,
         excluded.idle_s, excluded.ran, excluded.ran_s, excluded.is_leaving)
"""
GONE = "DELETE FROM fairness_workerreport WHERE seen_at < now() - interval '1 hour'"  # left by workers that have ended

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InUse:
    """A queue to be consumed."""

    lane: str
    weight: float  # its tenant's in this lane; 1 where it is many tenants'


@dataclass(frozen=True, slots=True)
class Known:
    """What Postgres said last. ``weights`` by lane and tenant, of those that were asked for."""

    queues: Mapping[str, InUse]
    weights: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Rows:
    """As they are in Postgres: queues in use, each with the terms of its tenant, and terms of other tenants."""

    queues: list[tuple[str, str, str | None, float | None, float | None]]  # name, lane, slug, weight, and transactional
    tenants: list[tuple[str, float, float | None]]


def read(tenants: Iterable[str]) -> Rows:
    """Of those of these ``tenants`` that have no queue in use."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(QUEUES)
        queues = cursor.fetchall()
        owners = {slug for _, _, slug, _, _ in queues}
        if not (others := [slug for slug in tenants if slug not in owners]):
            return Rows(queues, [])
        cursor.execute(TENANTS, [others])
        return Rows(queues, cursor.fetchall())


def known(rows: Rows, lanes: Collection[str]) -> Known:
    """What these say."""
    queues, weights = {}, {}
    terms = {slug: (weight, transactional) for slug, weight, transactional in rows.tenants}
    for name, lane, slug, weight, transactional in rows.queues:
        if slug is not None and weight is not None:
            terms[slug] = weight, transactional
        queues[name] = InUse(lane, 1.0 if weight is None else _in_lane(lane, weight, transactional))
    for slug, (weight, transactional) in terms.items():
        for lane in lanes:
            weights[lane, slug] = _in_lane(lane, weight, transactional)
    return Known(queues, weights)


def _in_lane(lane: str, weight: float, transactional: float | None) -> float:
    return transactional if lane == TRANSACTIONAL and transactional is not None else weight


class Reports:
    """The row of one worker."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started_at = datetime.now(UTC)

    def write(self, figures: Figures, *, is_leaving: bool) -> None:
        from django.db import connection

        of_time = (figures.interval_s, figures.slots, figures.busy, figures.waiting)
        values = (self._name, self._started_at, *of_time, figures.idle_s, figures.ran, figures.ran_s, is_leaving)
        with connection.cursor() as cursor:
            cursor.execute(REPORT, values)

    def forget_the_gone(self) -> None:
        """Rows that workers left, by the next one that starts."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(GONE)


class Clerk:
    """The thread. ``tell`` is called in it, with what is known; ``figures`` and ``tenants`` are asked there, too.

    ``figures`` None: nothing is known to report.
    """

    def __init__(
        self,
        lanes: Collection[str],
        *,
        tell: Callable[[Known], None],
        tenants: Callable[[], Iterable[str]],
        figures: Callable[[], Figures] | None,
    ) -> None:
        self._lanes = tuple(lanes)
        self._tell, self._tenants, self._figures = tell, tenants, figures
        self._reports: Reports | None = None
        self._rows: Rows | None = None  # as they were last
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._is_leaving = self._is_over = False
        self._is_blind = False  # the database did not answer last time

    def start(self, reports: Reports | None) -> None:
        """Once; it goes on from connection to connection. ``reports`` None: this worker does not report."""
        if self._thread is None:
            self._reports = reports if self._figures is not None else None
            self._thread = threading.Thread(target=self._run, name="fairness-clerk", daemon=True)
            self._thread.start()

    def leaving(self) -> None:
        """The worker takes nothing new any more."""
        self._is_leaving = True
        self._woken.set()

    def stop(self) -> None:
        """The worker has ended."""
        self._is_over = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(ENDS_S)

    def _run(self) -> None:
        from django.db import connections

        report_at = time.monotonic()
        self._try(self._begin)
        while not self._is_over:
            self._try(self._look)
            if self._reports is not None and (self._is_leaving or time.monotonic() >= report_at):
                report_at = time.monotonic() + REPORT_S
                self._try(self._report)
            self._woken.wait(POLL_S)
            self._woken.clear()
        connections.close_all()

    def _begin(self) -> None:
        if self._reports is not None:
            self._reports.forget_the_gone()

    def _look(self) -> None:
        """Tell what has changed."""
        if not self._is_leaving and (rows := read(self._tenants())) != self._rows:
            self._tell(known(rows, self._lanes))
            self._rows = rows

    def _report(self) -> None:
        assert self._reports is not None
        assert self._figures is not None
        figures = self._figures()
        if figures.slots or not self._is_leaving:  # else its pool has ended: what it had stays told
            self._reports.write(figures, is_leaving=self._is_leaving)

    def _try(self, action: Callable[[], Any]) -> None:
        """The worker goes on with what it knows; the same is tried again soon, on a connection that is made anew."""
        from django.db import Error, connection

        try:
            action()
        except Error as error:
            connection.close()
            if not self._is_blind:
                log.warning("Postgres does not answer; this worker goes on as it is, and reports nothing: %s", error)
            self._is_blind = True
        else:
            self._is_blind = False
