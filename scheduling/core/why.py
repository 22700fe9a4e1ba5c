"""Why is it waiting? Exactly one reason for each fire, and for each occurrence that is due and has no row yet.

The reasons are asked in the order of ``Why``, and the first that holds is it. What tenants have to do with it says
``fairness.explain``. Pure: what is known comes as values, and the words are the same in pages, on the command line and
in JSON. Times of rows are job times where the ledger has them so; all that is told is real time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from fairness.explain import Gate, Pace, Place, clock_time, explain
from scheduling.core.clock import TimeLapse
from scheduling.core.fire import UNSENDABLE, State


class Why(StrEnum):
    PAUSED = "paused"
    MISFIRE = "misfire"  # late beyond its grace: its policy decides at its claim
    EXCLUDED = "excluded"  # its calendar's closed times: it will be recorded as skipped
    PROBLEM = "problem"  # it cannot be scheduled, or sent
    RATE = "rate"
    CAP = "cap"
    BUDGET = "budget"
    SHARE = "share"
    OVERLAP = "overlap"  # an earlier fire of its job is unfinished
    TURN = "turn"  # the broker has refused, or cannot be reached
    RETRY = "retry"  # between two attempts
    NOT_DUE = "not_due"
    SHARD = "shard"  # nobody owns its shard, or the owner's lease is out
    CLAIM = "claim"  # due just now: its owner is about to claim it
    SENDING = "sending"  # on its way to the broker
    QUEUE = "queue"  # in the broker's queue
    NO_WORKER = "no_worker"  # there too, and nobody consumes it
    SENT = "sent"  # to a plain Celery task, of which the ledger hears nothing more
    RUNNING = "running"
    OVER = "over"


LIMITS = (Why.RATE, Why.CAP, Why.BUDGET)
_WAITING = (State.PARKED, State.RETRY_WAIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """``waits``: whether anything is to come of it. ``expected_at``: when it may start; None: nobody can tell."""

    why: Why
    words: str
    until: datetime | None = None
    ahead: int | None = None
    ahead_is_least: bool = False  # counting stopped there
    rank: int | None = None  # of its tenant, among the tenants in line
    tenants: int | None = None
    holders: Sequence[str] = ()  # what it waits for the end of: at most a few of them
    expected_at: datetime | None = None

    @property
    def waits(self) -> bool:
        return self.why not in (Why.RUNNING, Why.OVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Now, and what turns job time into real time."""

    real: datetime
    job: datetime
    lapse: TimeLapse | None = None  # None: they are the same

    def real_of(self, job_time: datetime | None) -> datetime | None:
        """None: it never comes."""
        if job_time is None or self.lapse is None:
            return job_time
        return self.lapse.real_time(job_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    by: str
    reason: str
    until: datetime | None  # job time

    def __str__(self) -> str:
        end = "until someone resumes it" if self.until is None else f"until {clock_time(self.until)}"
        return f"paused by {self.by or 'someone'} {end}: {self.reason or 'without a reason'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Of a shard. ``node`` empty: nobody. At stops 1 and 2 none has one: ``is_any`` node that lives will do."""

    node: str
    lives: bool
    is_any: bool = False

    def __str__(self) -> str:
        """Why nothing happens in its shard."""
        if self.is_any:
            return "no node lives: start one with manage.py scheduler"
        said = f"{self.node} owns its shard, and its lease is out" if self.node else "no node owns its shard"
        return f"{said}: another node takes it over, if one lives"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumers:
    """Of its queue. ``workers`` None: none has ever reported, so nobody can tell."""

    workers: int | None
    queues: Sequence[str] = ()  # in use, that it may be in
    in_use: bool = True  # False: no queue of its tenant's lane is consumed any more


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLine:
    """What is known of its tenant's lane. ``gate``: the limit that holds the fire, or would; by reason."""

    tenant: str
    lane: str
    place: Place
    pace: Pace
    gates: Sequence[Gate] = ()  # of the limits that apply to it
    holds_up: str | None = None  # what nodes say of the lane now: None: nothing of it waits with them; empty: its turn
    in_flight: int = 0

    def gate(self, reason: str) -> Gate | None:
        return next((gate for gate in self.gates if gate.reason == reason), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FireFacts:
    id: UUID
    state: State
    reason: str
    fire_at: datetime
    wake_at: datetime | None
    origin: str
    attempt: int
    max_attempts: int
    is_published: bool  # the broker has it
    is_redriven: bool
    is_guarded: bool | None  # its task acquires; None: no worker has registered it
    owner: Owner
    line: TenantLine
    consumers: Consumers
    pause: Pause | None = None
    started_at: datetime | None = None
    cancel_reason: str = ""
    ahead_of_job: Sequence[str] = ()  # unfinished fires of its job before it, where these may not overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class DueFacts:
    """An occurrence that is due, or will be, and that no node has claimed."""

    fire_at: datetime | None  # None: there is none to come
    grace_s: float
    misfire: str  # its policy
    is_excluded: bool
    problem: str
    owner: Owner
    line: TenantLine
    pause: Pause | None = None
    held_since: datetime | None = None  # job time: from then on its tenant has more due than is claimed


def why_fire(fire: FireFacts, now: Moment) -> Explained:
    """Exactly one reason."""
    if fire.state is State.RUNNING:
        return _running(fire)
    if fire.state not in (State.CLAIMED, *_WAITING):
        return Explained(why=Why.OVER, words=f"over: {_spaced(fire.state)}{_because(fire.reason)}")
    if fire.state is State.CLAIMED and fire.is_published:
        return _published(fire, now)
    if fire.pause is not None and not fire.origin and not fire.is_redriven:
        return Explained(why=Why.PAUSED, words=str(fire.pause), until=now.real_of(fire.pause.until))
    if fire.reason == UNSENDABLE:
        return Explained(why=Why.PROBLEM, words="no message can be made of its job's arguments: mend the job")
    if fire.state is State.CLAIMED and fire.fire_at > now.job:
        due_at = now.real_of(fire.fire_at)
        return Explained(why=Why.NOT_DUE, words=f"due at {clock_time(fire.fire_at)}", until=due_at, expected_at=due_at)
    return _before_the_broker(fire, now)


def _before_the_broker(fire: FireFacts, now: Moment) -> Explained:
    wake_at = now.real_of(fire.wake_at)
    is_later = fire.wake_at is not None and fire.wake_at > now.job
    if fire.state in _WAITING and fire.reason in LIMITS:
        gate = fire.line.gate(fire.reason)
        if gate is not None and (is_later or fire.owner.lives):
            return _of_tenant(fire.line, now, gate)  # the row's wake time is when it is looked for at the latest
    if fire.state is State.PARKED and fire.reason == Why.OVERLAP and fire.ahead_of_job:
        return Explained(
            why=Why.OVERLAP,
            words=f"its job's runs may not overlap, and {len(fire.ahead_of_job)} before it are unfinished",
            ahead=len(fire.ahead_of_job),
            holders=fire.ahead_of_job,
        )
    if fire.state is State.RETRY_WAIT and is_later:
        return _between_attempts(fire, wake_at)
    if not fire.owner.lives:
        return Explained(why=Why.SHARD, words=str(fire.owner))
    if fire.state is State.PARKED and fire.reason == Why.TURN:
        words = "the broker has refused its queue's messages, or cannot be reached: it is tried again"
        return Explained(why=Why.TURN, words=words, until=wake_at)
    if fire.line.holds_up is not None or fire.reason in (*LIMITS, Why.SHARE):
        goes_by_its_tenant = fire.state is State.CLAIMED or fire.reason == Why.SHARE
        gate = fire.line.gate(fire.line.holds_up or "") if goes_by_its_tenant else None
        return _of_tenant(fire.line, now, gate)
    if fire.state is State.CLAIMED:
        return Explained(why=Why.SENDING, words="due, and on its way to the broker", expected_at=now.real)
    return Explained(
        why=Why.CLAIM,
        words="its owner is about to take it up",
        until=wake_at if is_later else None,
        expected_at=now.real,
    )


def why_due(due: DueFacts, now: Moment) -> Explained:
    """Exactly one reason why the next occurrence has not been claimed."""
    if due.problem:
        return Explained(why=Why.PROBLEM, words=due.problem)
    if due.fire_at is None:
        return Explained(why=Why.OVER, words="its schedule has no more occurrences")
    if due.pause is not None and (due.pause.until is None or due.fire_at < due.pause.until):
        return Explained(why=Why.PAUSED, words=str(due.pause), until=now.real_of(due.pause.until))
    at = now.real_of(due.fire_at)
    if due.fire_at > now.job:
        return Explained(why=Why.NOT_DUE, words=f"due at {clock_time(due.fire_at)}", until=at, expected_at=at)
    if due.is_excluded:
        return Explained(why=Why.EXCLUDED, words="in a closed time of its calendar: it will be recorded as skipped")
    if not due.owner.lives:
        return Explained(why=Why.SHARD, words=str(due.owner))
    if due.held_since is not None or due.line.holds_up is not None:
        return _of_tenant(due.line, now, due.line.gate(due.line.holds_up or ""))
    if at is not None and (late_s := (now.real - at).total_seconds()) > due.grace_s:
        words = f"late by {late_s:,.0f} s, beyond its grace of {due.grace_s:g} s: its misfire policy ({due.misfire})"
        return Explained(why=Why.MISFIRE, words=f"{words} decides as soon as it is claimed")
    return Explained(why=Why.CLAIM, words="due just now: its owner is about to claim it", expected_at=now.real)


def _published(fire: FireFacts, now: Moment) -> Explained:
    if not fire.is_guarded:
        what = "a plain Celery task" if fire.is_guarded is not None else "a task that no worker has registered"
        return Explained(why=Why.SENT, words=f"sent to {what}, of which the ledger hears nothing more")
    where = f" ({' or '.join(fire.consumers.queues)})" if fire.consumers.queues else ""
    if fire.consumers.workers == 0:
        words = f"in the broker's queue{where}, and no worker lives that would take it"
        return Explained(why=Why.NO_WORKER, words=words)
    if not fire.consumers.in_use:
        return Explained(why=Why.NO_WORKER, words=f"in the broker's queue{where}, which no worker consumes any more")
    line, pace = fire.line, replace(fire.line.pace, queued=max(0, fire.line.pace.queued - 1) // 2)
    words = f"in the broker's queue{where}, or with a worker"
    if line.in_flight:
        words += f": {line.in_flight} of its tenant's are, and {line.pace.queued} of them do not run yet"
    if line.pace.per_s <= 0:
        return Explained(why=Why.QUEUE, words=words)
    waits = explain(tenant=line.tenant, lane=line.lane, place=Place(ahead=0), pace=pace, now=now.real)
    return Explained(why=Why.QUEUE, words=words, expected_at=waits.expected_at)


def _running(fire: FireFacts) -> Explained:
    since = "" if fire.started_at is None else f" since {clock_time(fire.started_at)}"
    asked = f"; it was asked to stop: {fire.cancel_reason}" if fire.cancel_reason else ""
    return Explained(why=Why.RUNNING, words=f"runs{since}, attempt {fire.attempt} of {fire.max_attempts}{asked}")


def _between_attempts(fire: FireFacts, wake_at: datetime | None) -> Explained:
    at = "" if wake_at is None else f" at {clock_time(wake_at)}"
    if fire.is_redriven:
        words = f"redriven: it is tried again{at}"
    else:
        words = f"attempt {fire.attempt} of {fire.max_attempts} has ended{_because(fire.reason)}; the next begins{at}"
    return Explained(why=Why.RETRY, words=words, until=wake_at, expected_at=wake_at)


def _of_tenant(line: TenantLine, now: Moment, gate: Gate | None) -> Explained:
    found = explain(tenant=line.tenant, lane=line.lane, place=line.place, pace=line.pace, now=now.real, gate=gate)
    return Explained(
        why=Why(found.reason),
        words=found.words,
        until=found.until,
        ahead=found.place.ahead,
        ahead_is_least=found.place.is_least,
        rank=found.place.rank,
        tenants=found.place.tenants,
        holders=gate.held_by if gate is not None else (),
        expected_at=found.expected_at,
    )


def _because(reason: str) -> str:
    return f" ({_spaced(reason)})" if reason else ""


def _spaced(word: str) -> str:
    return word.replace("_", " ")
