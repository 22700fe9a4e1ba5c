"""What a worker reads from Postgres, and writes there: which queues are in use, tenants' weights, and its own report.

A thread with a connection of its own, so that a database that is slow, or away, never holds up the worker: what was
known stays, and is said once. A report is a row that is written each second; a worker that ends says so in it, and
leaves the row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.utils.log import get_logger

from fairness.core.door import Figures
from fairness.core.terms import TRANSACTIONAL

POLL_S = 0.5
REPORT_S = 1.0
GONE = timedelta(hours=1)  # a report that old is forgotten by the next worker that starts
ENDS_S = 5.0  # how long it is waited for

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


def read(lanes: Collection[str], tenants: Iterable[str]) -> Known:
    """The queues in use, and the weights of their tenants and of these ``tenants``."""
    from django.db.models import Q

    from fairness.models import Tenant, TenantQueue

    rows = list(TenantQueue.objects.filter(retired_at=None).values_list("name", "lane", "tenant_id"))
    owners = {owner for _, _, owner in rows if owner is not None}
    terms = Tenant.objects.filter(Q(id__in=owners) | Q(slug__in=[*tenants])).values_list(
        "id", "slug", "weight", "transactional_weight"
    )
    weights: dict[tuple[str, str], float] = {}
    of_owners: dict[tuple[str, int | None], float] = {}
    for tenant_id, slug, weight, transactional_weight in terms:
        for lane in lanes:
            own = transactional_weight if lane == TRANSACTIONAL else None
            weights[lane, slug] = of_owners[lane, tenant_id] = weight if own is None else own
    queues = {name: InUse(lane, of_owners.get((lane, owner), 1.0)) for name, lane, owner in rows}
    return Known(queues, weights)


class Reports:
    """The row of one worker."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started_at = datetime.now(UTC)

    def write(self, figures: Figures, *, is_leaving: bool) -> None:
        from django.db.models.functions import Now

        from fairness.models import WorkerReport

        report = WorkerReport(
            name=self._name,
            started_at=self._started_at,
            seen_at=Now(),
            interval_s=figures.interval_s,
            slots=figures.slots,
            busy=figures.busy,
            waiting=figures.waiting,
            idle_s=figures.idle_s,
            ran=figures.ran,
            ran_s=figures.ran_s,
            is_leaving=is_leaving,
        )
        changed = [field.name for field in WorkerReport._meta.fields if not field.primary_key]
        WorkerReport.objects.bulk_create([report], update_conflicts=True, unique_fields=["name"], update_fields=changed)

    def forget_the_gone(self) -> None:
        """Rows that workers left."""
        from django.db.models.functions import Now

        from fairness.models import WorkerReport

        WorkerReport.objects.filter(seen_at__lt=Now() - GONE).delete()


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
        if not self._is_leaving:
            self._tell(read(self._lanes, self._tenants()))

    def _report(self) -> None:
        assert self._reports is not None
        assert self._figures is not None
        figures = self._figures()
        if figures.slots or not self._is_leaving:  # else its pool has ended: what it had stays told
            self._reports.write(figures, is_leaving=self._is_leaving)

    def _try(self, action: Callable[[], Any]) -> None:
        """The worker goes on with what it knows; the same is tried again soon."""
        from django.db import Error, close_old_connections

        close_old_connections()
        try:
            action()
        except Error as error:
            if not self._is_blind:
                log.warning("Postgres does not answer; this worker goes on as it is, and reports nothing: %s", error)
            self._is_blind = True
        else:
            self._is_blind = False
