"""What a node holds of a fire between claim and confirm, and what a publisher says of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from scheduling.core.identity import idempotency_key


class State(StrEnum):
    """The stored states of a fire. *Published* and *sent* are never stored: they are ``claimed`` at or below the
    watermark.
    """

    CLAIMED = "claimed"
    PARKED = "parked"
    RETRY_WAIT = "retry_wait"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    SKIPPED = "skipped"
    DEAD = "dead"


UNSENDABLE = "unsendable"  # why a fire is skipped or parked whose job's arguments cannot be sent
UNFINISHED = (State.CLAIMED, State.PARKED, State.RETRY_WAIT, State.RUNNING)


class Lane(StrEnum):
    """Separate queues of one tenant."""

    TRANSACTIONAL = "transactional"
    BULK = "bulk"


class MisfirePolicy(StrEnum):
    """What becomes of occurrences that were not published within their grace."""

    LATEST = "latest"
    EARLIEST = "earliest"
    ALL = "all"
    SKIP = "skip"


class OverlapPolicy(StrEnum):
    """What becomes of a fire whose predecessor has not finished."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_RUNNING = "cancel_running"  # what runs is asked to stop, and the newest takes its place


class CatchUp(StrEnum):
    """What becomes of the occurrences that a pause skipped, when it ends."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"  # within the job's catch_up_limit and catch_up_window


@dataclass(frozen=True, slots=True)
class Work:
    """The part of a job that its fires share: what is to be run, for whom, under which policies."""

    job_id: UUID
    shard: int
    tenant_id: int
    tenant: str
    history_days: int
    name: str
    task: str
    lane: Lane
    args: str  # JSON text of an array
    kwargs: str  # JSON text of an object
    soft_timeout_s: float | None = None
    hard_timeout_s: float | None = None
    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    buffer_limit: int = 100
    misfire: MisfirePolicy = MisfirePolicy.LATEST
    misfire_grace_s: float = 30.0
    catch_up_limit: int = 100
    catch_up_window: timedelta = timedelta(hours=1)
    problem: str = ""  # why no message can be made of it, whose arguments are left out then; none of its fires is sent


@dataclass(slots=True)
class Fire:
    """One claimed occurrence in a node's memory. ``epoch`` and ``seq`` say where its confirm belongs; ``fence`` who
    may run it.
    """

    work: Work
    id: UUID
    scheduled_for: datetime
    fire_at: datetime
    origin: str
    fence: int
    attempt: int  # attempts begun so far: 0 before the first
    epoch: int
    seq: int
    claimed_at: float = 0.0  # monotonic seconds: waiting for us does not count against it
    published: bool = False  # handed to a broker at least once: its misfire policy is not judged again
    exclusive: bool = False  # its row says that it may not overlap the others of its job that say so

    @property
    def key(self) -> str:
        return idempotency_key(self.work.job_id, self.scheduled_for, self.origin)

    @property
    def may_overlap(self) -> bool:
        """By its job's policy, unless who asked for it asked for one at a time."""
        return self.work.overlap is OverlapPolicy.ALLOW and not (self.exclusive and self.origin)


class Verdict(StrEnum):
    """What a publisher says of one message."""

    CONFIRMED = "confirmed"  # durable in the broker, in a queue
    NACKED = "nacked"  # refused by the broker: its queue is full
    UNSENT = "unsent"  # never given to a broker: there is no connection
    LOST = "lost"  # sent, and the connection ended before its confirm: it may be in a queue


@dataclass(slots=True)
class Outcome:
    fire: Fire
    verdict: Verdict
