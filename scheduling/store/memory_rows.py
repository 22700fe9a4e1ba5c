"""Rows of the in-memory store. A simulation may read them, and write what a person or a worker would."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from uuid import UUID

from scheduling.core.definition import ScheduleFields
from scheduling.core.due import FOR_EVER, DueJob, ScheduledJob, Superseded
from scheduling.core.fire import UNFINISHED, CatchUp, Fire, OverlapPolicy, State, Work

WAITING = (State.PARKED, State.RETRY_WAIT)


@dataclass(slots=True)
class StoredJob:
    """``next_fire_at`` None: nothing is to come."""

    work: Work
    schedule: ScheduleFields
    next_scheduled_for: datetime | None
    next_fire_at: datetime | None
    changed_at: datetime
    jitter: timedelta = timedelta(0)
    version: int = 1
    max_attempts: int = 3
    retry_base: timedelta = timedelta(seconds=10)
    retry_cap: timedelta = timedelta(hours=1)
    expires_after: timedelta | None = None
    problem: str = ""
    paused_at: datetime | None = None
    paused_until: datetime = FOR_EVER
    catch_up: CatchUp = CatchUp.NONE
    is_deleted: bool = False
    max_runs: int | None = None
    fired: int = 0
    superseded: tuple[Superseded, ...] = ()

    def is_paused_at(self, moment: datetime) -> bool:
        return self.paused_at is not None and moment < self.paused_until

    def resume(self) -> None:
        self.paused_at, self.paused_until, self.catch_up = None, FOR_EVER, CatchUp.NONE

    def due(self) -> DueJob:
        job = ScheduledJob(
            work=self.work,
            schedule=self.schedule,
            jitter=self.jitter,
            version=self.version,
            changed_at=self.changed_at,
            max_runs=self.max_runs,
            max_attempts=self.max_attempts,
            fired=self.fired,
            superseded=self.superseded,
            paused_until=None if self.paused_at is None else self.paused_until,
        )
        return DueJob(job, self.next_scheduled_for, self.next_fire_at)


@dataclass(slots=True)
class StoredFire:
    """``number`` is (epoch, seq). ``claimed_at`` and ``lease_until`` are monotonic seconds, what says nothing else job
    time."""

    work: Work
    id: UUID
    scheduled_for: datetime
    fire_at: datetime
    origin: str = ""
    version: int = 1
    state: State = State.CLAIMED
    reason: str = ""
    fence: int = 1
    attempt: int = 0
    max_attempts: int = 3
    number: tuple[int, int] | None = None
    claimed_at: float = 0.0
    confirmed: bool = False
    wake_at: datetime | None = None
    lease_until: float | None = None
    holder: UUID | None = None
    covers: int = 1
    covers_to: datetime | None = None
    nominal: str = ""
    exclusive: bool = False  # asked for one at a time
    skipped_at: datetime | None = None
    cancel_reason: str = ""  # why it is to stop, where that was asked for while it runs
    started_at: float | None = None  # monotonic seconds: when the current attempt began
    sent_again_at: float | None = None  # monotonic seconds

    @property
    def is_unfinished(self) -> bool:
        return self.state in UNFINISHED

    @property
    def is_exclusive(self) -> bool:
        return self.exclusive or self.work.overlap is not OverlapPolicy.ALLOW

    def held(self, work: Work, now: float) -> Fire:
        """As a node holds it; ``work`` is its job's present one. What a retry or its job held back is late from now."""
        counts = self.state is State.CLAIMED or self.reason == "turn"
        epoch, seq = self.number or (0, 0)
        return Fire(
            work,
            self.id,
            self.scheduled_for,
            self.fire_at,
            self.origin,
            self.fence,
            self.attempt,
            epoch,
            seq,
            self.claimed_at if counts else now,
            exclusive=self.is_exclusive,
        )


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One attempt that has ended, and how: a ``RunState``."""

    state: str
    holder: UUID | None
    worker: str = ""  # empty where its owner ended it
    ran_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter: how the fire died, and with which fence."""

    reason: str
    fence: int
    attempts: int
    error: str = ""
    worker: str = ""


@dataclass(slots=True)
class StoredStep:
    fence: int  # of the attempt that began it
    is_done: bool = False
    result: str = "null"  # JSON


@dataclass(slots=True)
class StoredShard:
    """``mark`` is the recorded watermark, as (epoch, seq)."""

    epoch: int = 0
    mark: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Rows:
    """All tables. A transaction holds ``lock``."""

    shards: dict[int, StoredShard]
    jobs: dict[UUID, StoredJob] = field(default_factory=dict)
    fires: dict[UUID, StoredFire] = field(default_factory=dict)
    runs: dict[tuple[UUID, int], StoredRun] = field(default_factory=dict)  # by (fire, fence)
    letters: dict[UUID, StoredLetter] = field(default_factory=dict)  # by fire
    steps: dict[tuple[UUID, str], StoredStep] = field(default_factory=dict)  # by (fire, name)
    holds: dict[tuple[int, int], datetime] = field(default_factory=dict)  # since when, by (tenant, shard)
    guarded: set[str] = field(default_factory=set)  # tasks that acquire their fires, as workers have told
    reports: dict[str, int] = field(default_factory=dict)  # fires confirmed, by node
    lock: Lock = field(default_factory=Lock, repr=False)

    def ended(self, fire: StoredFire, run: StoredRun, now: float) -> None:
        """The record of its attempt under the present fence, unless it has one; ``now`` is monotonic."""
        ran_s = None if fire.started_at is None else now - fire.started_at
        self.runs.setdefault((fire.id, fire.fence), replace(run, ran_s=ran_s))

    def died(self, fire: StoredFire, *, error: str, worker: str = "") -> None:
        """Its dead letter, once the fire is as it died."""
        self.letters[fire.id] = StoredLetter(fire.reason, fire.fence, fire.attempt, error, worker)

    def is_beyond(self, fire: StoredFire) -> bool:
        """Claimed beyond its shard's watermark: it may or may not be in a queue."""
        if fire.state is not State.CLAIMED:
            return False
        if fire.number is None:
            return not fire.confirmed
        return fire.number > self.shards[fire.work.shard].mark
