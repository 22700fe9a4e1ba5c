"""What the demo counts at its end: every occurrence of the span, told from the schedules anew, must have its row.

An occurrence is *accounted for* by a fire of its instant, or by a skip row that covers its stretch. It is lost if
neither is there, or if its fire has not come to an end although it had its time. A job that was edited, made or deleted
meanwhile is judged for the part of the span in which it had its present schedule.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Count, F, Q, Sum

from project.demo.models import Effect
from scheduling.core.jitter import jittered
from scheduling.core.latency import LatencyHistogram
from scheduling.core.recurrence import occurrences
from scheduling.models import Entry, Fire, Job, JobRun, Node

# Fires of the span that still have to come to an end. A plain Celery task tells nobody of its end: it is done when the
# broker has it. A retry whose time lies behind the span has run before, and waits rightly.
OPEN = """
SELECT count(*)
FROM scheduling_fire f
JOIN scheduling_job j ON j.id = f.job_id
JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
WHERE f.origin = '' AND f.scheduled_for > %(after)s AND f.scheduled_for <= %(until)s AND f.fire_at <= %(until)s
  AND (f.state IN ('parked', 'running')
       OR f.state = 'retry_wait' AND f.wake_at <= %(until)s
       OR f.state = 'claimed' AND NOT (
            j.task = ANY (%(plain)s) AND (f.confirmed OR (f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq))))
"""

# From the real instant at which the fire was due to the start of its first attempt.
START_LATENCY = """
SELECT percentile_disc(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (ORDER BY extract(epoch FROM
    r.started_at - (c.real_origin + (f.fire_at - c.job_origin) / c.speed))::float8)
FROM scheduling_jobclock c
CROSS JOIN scheduling_jobrun r
JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.fire_id, r.history_days)
WHERE r.attempt = 1 AND f.origin = '' AND r.scheduled_for > %(after)s AND r.scheduled_for <= %(until)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of job time, open at ``after``, closed at ``until``. ``plain``: the tasks that know no ledger."""

    after: datetime
    until: datetime
    plain: Collection[str] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        return {"after": self.after, "until": self.until, "plain": list(self.plain)}

    @property
    def rows(self) -> Q:
        return Q(scheduled_for__gt=self.after, scheduled_for__lte=self.until)


class Row(NamedTuple):
    """A row of the ledger as one that accounts for occurrences: one, or ``covers`` of them up to ``covers_to``."""

    scheduled_for: datetime
    covers: int
    covers_to: datetime | None


def build(span: Span, *, broker: str) -> dict[str, Any]:
    """The demo's last line."""
    own = Fire.objects.filter(span.rows, origin="")
    open_fires = count_open(span)
    skipped = own.filter(state="skipped").values("reason").order_by("reason").annotate(occurrences=Sum("covers"))
    return {
        "jobs": Job.objects.filter(deleted_at=None).count(),
        "from": span.after.isoformat(),
        "to": span.until.isoformat(),
        "fires": own.exclude(state="skipped").filter(fire_at__lte=span.until).count() - open_fires,
        "runs": JobRun.objects.filter(span.rows).count(),
        "skipped": {row["reason"]: row["occurrences"] for row in skipped},
        "lost": count_missing(span) + open_fires,
        "duplicate_effects": count_duplicate_effects(),
        "broker": broker,
        "fire_latency_ms": fire_latency_ms(),
        "start_latency_ms": start_latency_ms(span),
    }


def count_open(span: Span) -> int:
    """Fires of the span that have not come to an end."""
    with connection.cursor() as cursor:
        cursor.execute(OPEN, span.parameters)
        count: int = cursor.fetchone()[0]
    return count


def count_unsettled(span: Span) -> int:
    """Fires of the span that have not come to an end, and jobs of which not even the fires are claimed."""
    in_rows = Job.objects.filter(deleted_at=None, next_fire_at__lte=span.until).count()
    return count_open(span) + in_rows + Entry.objects.filter(fire_at__lte=span.until).count()


def count_missing(span: Span) -> int:
    """Occurrences that are due in the span by their job's schedule, and have no row."""
    rows: dict[UUID, list[Row]] = defaultdict(list)
    found = Fire.objects.filter(span.rows, origin="").order_by("scheduled_for")
    for job_id, *row in found.values_list("job_id", "scheduled_for", "covers", "covers_to").iterator():
        rows[job_id].append(Row._make(row))
    return sum(unaccounted(due(job, span), rows[job.pk]) for job in Job.objects.iterator())


def due(job: Job, span: Span) -> list[datetime]:
    """The job's occurrences that fire within the span, by its present schedule."""
    after = max(span.after, job.schedule_changed_at or span.after)
    until = min(span.until, job.deleted_at or span.until)
    schedule = job.schedule
    return [
        at
        for at in occurrences(schedule, after=after, until=until)
        if not job.jitter or jittered(job.pk, at, job.jitter, schedule.next_after(at)) <= until
    ]


def unaccounted(expected: list[datetime], rows: Iterable[Row]) -> int:
    """How many of the ``expected`` instants, in order, no row accounts for."""
    rows = list(rows)
    single = {row.scheduled_for for row in rows if row.covers_to is None}
    left = [at for at in expected if at not in single]
    covered = 0
    for row in rows:
        if row.covers_to is not None:
            stretch = bisect_right(left, row.covers_to) - bisect_left(left, row.scheduled_for)
            covered += min(stretch, row.covers)
    return len(left) - covered


def count_duplicate_effects() -> int:
    """Effects beyond the first of their fire."""
    counts = Effect.objects.aggregate(effects=Count("*"), fires=Count("fire_id", distinct=True))
    return int(counts["effects"] - counts["fires"])


def fire_latency_ms() -> dict[str, float | None]:
    """From due to confirmed by the broker, over all nodes."""
    merged = LatencyHistogram()
    for latency in Node.objects.exclude(latency={}).values_list("latency", flat=True):
        merged.merge(LatencyHistogram.from_dict(latency))
    return _milliseconds(merged.quantile(0.5), merged.quantile(0.99), merged.max)


def start_latency_ms(span: Span) -> dict[str, float | None]:
    """From due to the start of the first attempt."""
    with connection.cursor() as cursor:
        cursor.execute(START_LATENCY, span.parameters)
        found = cursor.fetchone()[0]
    return _milliseconds(*(found or (None, None, None)))


def _milliseconds(p50: float | None, p99: float | None, highest: float | None) -> dict[str, float | None]:
    named = {"p50": p50, "p99": p99, "max": highest}
    return {name: None if value is None else round(value * 1000, 1) for name, value in named.items()}


def confirmed_fires() -> int:
    """How many fires the nodes have reported as confirmed."""
    return int(Node.objects.aggregate(total=Sum(F("fires")))["total"] or 0)
