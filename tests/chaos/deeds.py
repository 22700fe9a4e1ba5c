"""What a run does to jobs and queues on purpose, noted as it is done: so the judge knows what is owed, and what is not.

::

    occurrences of a job that was edited at E (known to be committed at K)

    old schedule    ──o────o────o──┤E                          due up to E
                                   ├──(o)──(o)                 spare: claimed ahead, perhaps; none begins after K
    new schedule                   ├───o─────o────o────▶       due from E on

A spare occurrence may have a row, and no more than one. Pure, but for the clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from fairness.core.terms import Bound
from scheduling.core.recurrence import Schedule, occurrences

AHEAD = timedelta(seconds=3)  # no node claims further ahead


@dataclass(frozen=True, slots=True)
class Edit:
    """From ``at`` on (the database says when that was) the job's schedule is this one; None: one that cannot be
    planned. Its commit was known at ``known_at``.
    """

    schedule: Schedule | None
    at: datetime
    known_at: datetime


class Made(NamedTuple):
    """A job as it was made: its schedule counts from ``at`` on (the database's clock)."""

    schedule: Schedule
    at: datetime


@dataclass(frozen=True, slots=True)
class Deletion:
    """Of a job whose occurrences had their rows up to ``claimed_to``: what comes later is not owed any more."""

    claimed_to: datetime
    known_at: datetime


@dataclass(frozen=True, slots=True)
class Ban:
    """No run of this job may begin from ``since`` on; ``until`` None: for ever."""

    job: UUID
    since: datetime
    until: datetime | None = None


class Limited(NamedTuple):
    """All runs of these jobs together keep to a bound, from one moment to another (monotonic ns; None: always)."""

    name: str
    jobs: frozenset[UUID]
    bound: Bound
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(slots=True)
class Deeds:
    """``made``: the jobs that are going to be edited. ``rated``: spans (monotonic ns) in which starts follow closely
    upon admission, so that a rate can be seen in them.
    """

    made: dict[UUID, Made] = field(default_factory=dict)
    edits: dict[UUID, list[Edit]] = field(default_factory=lambda: defaultdict(list))
    deletions: dict[UUID, Deletion] = field(default_factory=dict)
    bans: list[Ban] = field(default_factory=list)
    deaths: dict[UUID, frozenset[str]] = field(default_factory=dict)  # of which a job's fires may die
    rated: list[tuple[int, int]] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)  # texts of messages that must be found in the dead letters

    def edited(self, job: UUID, schedule: Schedule | None, *, at: datetime) -> None:
        """Call it as soon as the commit is known."""
        self.edits[job].append(Edit(schedule, at, datetime.now(UTC)))

    def deleted(self, job: UUID, *, claimed_to: datetime) -> None:
        """Call it as soon as the commit is known."""
        now = datetime.now(UTC)
        self.deletions[job] = Deletion(claimed_to, now)
        self.bans.append(Ban(job, now))

    def may_die(self, jobs: Iterable[UUID], *reasons: str) -> None:
        for job in jobs:
            self.deaths[job] = self.deaths.get(job, frozenset()) | frozenset(reasons)


@dataclass(frozen=True, slots=True)
class Owed:
    """``due``: occurrences, in order, that must have come to their end. ``spare``: those that may have a row; a run of
    one must have begun before the moment that goes with it.
    """

    due: Sequence[datetime]
    spare: dict[datetime, datetime] = field(default_factory=dict)


def owed(made: Made, edits: Sequence[Edit] = (), *, until: datetime, deletion: Deletion | None = None) -> Owed:
    """What a job with these schedules, one after the other, owes up to ``until``."""
    due: set[datetime] = set()
    spare: dict[datetime, datetime] = {}
    schedule: Schedule | None = made.schedule
    since = made.at
    for edit in edits:
        if schedule is not None:
            due.update(occurrences(schedule, after=since, until=min(edit.at, until)))
            ahead = occurrences(schedule, after=edit.at, until=edit.at + AHEAD)
            spare.update((at, _known_at(edits, at)) for at in ahead)
        schedule, since = edit.schedule, edit.at
    if schedule is not None:
        due.update(occurrences(schedule, after=since, until=until))
    spare = {at: known_at for at, known_at in spare.items() if at not in due}
    if deletion is not None:
        not_owed = {at for at in due if at > deletion.claimed_to}
        spare |= dict.fromkeys(not_owed, deletion.known_at)
        due -= not_owed
    return Owed(sorted(due), spare)


def _known_at(edits: Sequence[Edit], at: datetime) -> datetime:
    """When the last edit before this occurrence was known to be committed."""
    return max(edit.known_at for edit in edits if edit.at < at)
