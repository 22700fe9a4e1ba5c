"""Judges a run that is over by what it left: the ledger's rows, the effects, and the log of runs. Pure.

Each finding is one sentence, under what it proves:

``lost``     an occurrence without a row, or whose fire neither succeeded nor died as it must, with a dead letter; a
             success without its effect; a message that nobody can execute, and that is in no dead letter
``doubled``  two rows for one occurrence, or one for none; an effect too many, or of a fire that did not succeed; a dead
             letter of a fire that is not dead
``unheld``   a run that the ledger should not have let begin: two holders of one fire at once, or one under a used
             fence; more runs than attempts; one of a job that was paused or deleted, or of an occurrence edited away
``over``     more runs of a tenant at once, or within some time, than its limit allows

Of two holders the log alone is asked: a fire may be run again, without the end of the run before it, once a lease has
passed since that run asked for its own; sooner, both held it. (A run whose process is gone has ended.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tests.chaos.deeds import Ban, Limited, Owed
from tests.chaos.limits_kept import excess, most_at_once
from tests.chaos.runlog import Run

NOTHING = Owed(())


class FireRow(NamedTuple):
    """``covers_to``: the row stands for all occurrences up to that one."""

    id: UUID
    job: UUID
    scheduled_for: datetime
    state: str
    reason: str = ""
    covers_to: datetime | None = None
    attempt: int = 0
    max_attempts: int = 1


class Start(NamedTuple):
    """When the ledger let a run begin."""

    fire: UUID
    job: UUID
    scheduled_for: datetime
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``owed``: each job's occurrences by its schedules; ``effects``: the fire of each effect.

    ``starts`` need hold no others than those of jobs that were edited or banned. ``letters``: the reason in the dead
    letter of each fire that has one; ``deaths``: the reasons of which a job's fires may die; ``unread``: what was sent
    to be refused, and is in no dead letter.
    """

    owed: Mapping[UUID, Owed]
    fires: Sequence[FireRow]
    effects: Sequence[UUID]
    runs: Sequence[Run]
    lease_s: float
    starts: Sequence[Start] = ()
    bans: Sequence[Ban] = ()
    letters: Mapping[UUID, str] = field(default_factory=dict)
    deaths: Mapping[UUID, Collection[str]] = field(default_factory=dict)
    unread: Collection[str] = ()
    limits: Sequence[Limited] = ()


class Finding(NamedTuple):
    """``at`` is the occurrence's instant, where one is known."""

    text: str
    at: datetime | None = None


@dataclass(slots=True)
class Verdict:
    due: int = 0
    fired: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # occurrences by reason
    dead: Counter[str] = field(default_factory=Counter)  # fires that had to die, by reason
    runs: int = 0
    lost: list[Finding] = field(default_factory=list)
    doubled: list[Finding] = field(default_factory=list)
    unheld: list[Finding] = field(default_factory=list)
    over: list[Finding] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.unheld or self.over)


def judge(evidence: Evidence) -> Verdict:
    verdict = Verdict(due=sum(len(owed.due) for owed in evidence.owed.values()), runs=len(evidence.runs))
    of_job: dict[UUID, list[FireRow]] = defaultdict(list)
    for fire in evidence.fires:
        of_job[fire.job].append(fire)
    for job in evidence.owed.keys() | of_job.keys():
        _occurrences(verdict, job, evidence.owed.get(job, NOTHING), of_job[job])
    _ends(verdict, evidence)
    _effects(verdict, evidence)
    _attempts(verdict, evidence)
    _forbidden(verdict, evidence)
    _limits(verdict, evidence)
    verdict.lost += [Finding(f"the message {mark} is in no dead letter") for mark in evidence.unread]
    instants = {fire.id: fire.scheduled_for for fire in evidence.fires}
    verdict.unheld += [Finding(text, instants.get(fire)) for fire, text in two_at_once(evidence.runs, evidence.lease_s)]
    return verdict


def _occurrences(verdict: Verdict, job: UUID, owed: Owed, fires: Iterable[FireRow]) -> None:
    """I1, I4: every occurrence has one row."""
    rows = Counter(dict.fromkeys([*owed.due, *owed.spare], 0))
    may_have = sorted(rows)
    for fire in fires:
        stands_for = _stands_for(fire, may_have)
        if not stands_for:
            verdict.doubled.append(_of(fire, "no occurrence of its job's schedule"))
        rows.update(stands_for)
        if fire.state == "skipped":
            verdict.skipped[fire.reason] += len(stands_for)
    for at, count in rows.items():
        if count == 0 and at not in owed.spare:
            verdict.lost.append(Finding(f"job {job} at {at.isoformat()}: no row", at))
        elif count > 1:
            verdict.doubled.append(Finding(f"job {job} at {at.isoformat()}: {count} rows", at))


def _stands_for(fire: FireRow, occurrences: Sequence[datetime]) -> Sequence[datetime]:
    until = fire.covers_to or fire.scheduled_for
    return occurrences[bisect_left(occurrences, fire.scheduled_for) : bisect_right(occurrences, until)]


def _ends(verdict: Verdict, evidence: Evidence) -> None:
    """I1 and I7: every fire has come to its end; it died only where it had to, and that can be seen."""
    letters = dict(evidence.letters)
    for fire in evidence.fires:
        letter = letters.pop(fire.id, None)
        if fire.state == "succeeded":
            verdict.fired += 1
        elif fire.state == "dead" and fire.reason in evidence.deaths.get(fire.job, ()):
            verdict.dead[fire.reason] += 1
            if letter != fire.reason:
                verdict.lost.append(_of(fire, f"dead ({fire.reason}), and its dead letter says {letter}"))
        elif fire.state != "skipped":
            verdict.lost.append(_of(fire, f"ended as {fire.state} {fire.reason}".rstrip()))
        if letter is not None and fire.state != "dead":
            verdict.doubled.append(_of(fire, f"{fire.state}, though there is a dead letter of it ({letter})"))
    verdict.doubled += [
        Finding(f"fire {fire}: a dead letter ({reason}), and no row") for fire, reason in letters.items()
    ]


def _effects(verdict: Verdict, evidence: Evidence) -> None:
    """I2: a success has one effect, anything else none, and none without a run."""
    effects = Counter(evidence.effects)
    began = {run.fire for run in evidence.runs}
    for fire in evidence.fires:
        count = effects.pop(fire.id, 0)
        wanted = 1 if fire.state == "succeeded" else 0
        if count < wanted:
            verdict.lost.append(_of(fire, "succeeded without its effect"))
        elif count > wanted:
            verdict.doubled.append(_of(fire, f"{count} effects, though {fire.state}"))
        if fire.state == "skipped" and fire.id in began:
            verdict.doubled.append(_of(fire, f"ran, though skipped ({fire.reason})"))
        if fire.state == "succeeded" and fire.id not in began:
            verdict.unheld.append(_of(fire, "succeeded, and no run of it began"))
    verdict.doubled += [Finding(f"fire {fire}: {count} effects, and no row") for fire, count in effects.items()]


def _attempts(verdict: Verdict, evidence: Evidence) -> None:
    """Every run is an attempt, and there are no more than the job allows: poison does not go round for ever."""
    runs = Counter(run.fire for run in evidence.runs)
    for fire in evidence.fires:
        allowed = min(fire.attempt, fire.max_attempts)
        if runs[fire.id] > allowed:
            verdict.unheld.append(_of(fire, f"{runs[fire.id]} runs, in {allowed} attempts"))


def _forbidden(verdict: Verdict, evidence: Evidence) -> None:
    """I9: none begins once the commit of a pause, an edit or a delete is known that forbids it."""
    bans: dict[UUID, list[Ban]] = defaultdict(list)
    for ban in evidence.bans:
        bans[ban.job].append(ban)
    for start in evidence.starts:
        name = (
            f"fire {start.fire} (job {start.job}, {start.scheduled_for.isoformat()}): began at {start.at.isoformat()}"
        )
        for ban in bans[start.job]:
            if ban.since < start.at and (ban.until is None or start.at < ban.until):
                said = f"{name}, though its job was paused or deleted by {ban.since.isoformat()}"
                verdict.unheld.append(Finding(said, start.scheduled_for))
        known_at = evidence.owed.get(start.job, NOTHING).spare.get(start.scheduled_for)
        if known_at is not None and start.at > known_at:
            said = f"{name}, though an edit had taken it away by {known_at.isoformat()}"
            verdict.unheld.append(Finding(said, start.scheduled_for))


def _limits(verdict: Verdict, evidence: Evidence) -> None:
    job_of = {fire.id: fire.job for fire in evidence.fires}
    instants = {fire.id: fire.scheduled_for for fire in evidence.fires}
    for limited in evidence.limits:
        runs = [run for run in evidence.runs if job_of.get(run.fire) in limited.jobs]
        cap, per_s = limited.bound.max_in_flight, limited.bound.rate_per_s
        if cap is not None and runs:
            most, fire = most_at_once(runs, evidence.lease_s)
            if most > cap:
                verdict.over.append(Finding(f"{limited.name}: {most} at once, of {cap}", instants[fire]))
        if per_s is not None and runs:
            beyond, fire = excess(runs, limited)
            if beyond > 0:
                said = f"{limited.name}: {beyond:.0f} more than {per_s:g} a second and {limited.bound.burst} at once"
                verdict.over.append(Finding(said, instants[fire]))


def two_at_once(runs: Iterable[Run], lease_s: float) -> Iterator[tuple[UUID, str]]:
    """I2: never two unexpired holders, and never two runs under one fence."""
    of_fire: dict[UUID, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.began_ns):
        for before in of_fire[run.fire]:
            name = f"fire {run.fire}: fence {run.fence} began to run"
            after_s = (run.began_ns - before.asked_ns) / 1e9
            if before.fence >= run.fence:
                yield run.fire, f"{name} after fence {before.fence} had"
            elif (before.ended_ns is None or before.ended_ns > run.began_ns) and after_s < lease_s:
                yield run.fire, f"{name} {after_s:.2f} s into the lease of fence {before.fence}"
        of_fire[run.fire].append(run)


def _of(fire: FireRow, what: str) -> Finding:
    name = f"fire {fire.id} (job {fire.job}, {fire.scheduled_for.isoformat()})"
    return Finding(f"{name}: {what}", fire.scheduled_for)
