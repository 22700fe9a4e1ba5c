"""Jobs that are due, as a store reads them and a claim plans them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from scheduling.core.closed_times import CalendarFields
from scheduling.core.definition import ScheduleFields
from scheduling.core.fire import Work
from scheduling.core.recurrence import Schedule

FOR_EVER = datetime.max.replace(tzinfo=UTC)  # the end of a pause that ends by a person's word only


@dataclass(frozen=True, slots=True)
class Superseded:
    """A schedule that was edited while it had occurrences without a row: those after ``after``, up to the edit.

    ``after`` None: the job's entry in the bucketed store tells.
    """

    schedule: ScheduleFields
    jitter: timedelta
    after: datetime | None
    edited_at: datetime


@dataclass(slots=True, eq=False)
class ScheduledJob:
    """A job as its row says. It is read once for many of its occurrences, and never changed: a store that keeps it
    looks whether the row is still the same.

    ``paused_until`` is the end of the pause, as far as it can be told; None if the job is not paused.
    """

    work: Work
    schedule: ScheduleFields
    jitter: timedelta
    version: int
    changed_at: datetime
    calendar: CalendarFields | None = None
    max_runs: int | None = None
    max_attempts: int = 3
    fired: int = 0  # of max_runs
    superseded: tuple[Superseded, ...] = ()
    paused_until: datetime | None = None
    in_bucket: bool = False  # its next occurrence is, or was before an edit, an entry of the bucketed store
    read_from: tuple[str, str] = ("", "")  # which versions of its row and its tenant's, where a store keeps it
    _built: Schedule | None = field(default=None, init=False, repr=False)

    def build(self) -> Schedule:
        """Its schedule. Raises InvalidField for a row that says something impossible."""
        if self._built is None:
            self._built = self.schedule.build(self.work.job_id)
        return self._built

    @property
    def first_edit(self) -> datetime:
        """Since it was planned last: what it had claimed ahead of this instant is no longer of its schedule."""
        if not self.superseded:
            return self.changed_at
        first = self.superseded[0]
        return first.edited_at if first.after is None else first.after

    @property
    def is_plain(self) -> bool:
        """Nothing but its schedule and its misfire policy has a say in which occurrences run."""
        return (
            self.calendar is None
            and self.max_runs is None
            and self.paused_until is None
            and not self.superseded
            and not self.work.problem
        )


@dataclass(slots=True, eq=False)
class DueJob:
    """A job and its next occurrence, as the claim reads them. No ``next_scheduled_for``: its schedule was edited, and
    has to be planned anew.

    ``slot`` says where the bucketed store keeps the occurrence; None: in the job's row. ``carried`` is how often it has
    fired since it left the row. ``is_kept``: its job was read some time ago, so that the claim has to look whether that
    still holds.
    """

    job: ScheduledJob
    next_scheduled_for: datetime | None
    next_fire_at: datetime | None = None
    slot: int | None = None
    carried: int = 0
    is_kept: bool = False

    @property
    def work(self) -> Work:
        return self.job.work


@dataclass(frozen=True, slots=True)
class Due:
    """What a read has found, and what it can say of the rest.

    ``seen`` are the shards that it has looked at from end to end: of each tenant there that it did not leave out,
    ``jobs`` has all that is due; but for those of which there is, or may be, ``more``: (tenant, shard).
    """

    jobs: Sequence[DueJob] = ()
    seen: frozenset[int] = frozenset()
    more: frozenset[tuple[int, int]] = frozenset()
