"""Judges a run that is over by what it left: the ledger's rows, the effects, and the log of runs. Pure.

Each finding is one sentence, under what it proves:

``lost``     an occurrence without a row, or whose fire did not succeed; a success without its effect
``doubled``  two rows for one occurrence, or one for none; an effect too many, or of a fire that did not succeed
``unheld``   a run that the ledger should not have let begin: two holders of one fire at once, or one under a used fence

Of two holders the log alone is asked: a fire may be run again, without the end of the run before it, once a lease has
passed since that run asked for its own; sooner, both held it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tests.chaos.runlog import Run


class FireRow(NamedTuple):
    """``covers_to``: the row stands for all occurrences up to that one."""

    id: UUID
    job: UUID
    scheduled_for: datetime
    state: str
    reason: str = ""
    covers_to: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``due``: each job's occurrences by its schedule, in order; ``effects``: the fire of each effect."""

    due: Mapping[UUID, Sequence[datetime]]
    fires: Sequence[FireRow]
    effects: Sequence[UUID]
    runs: Sequence[Run]
    lease_s: float


class Finding(NamedTuple):
    """``at`` is the occurrence's instant, where one is known."""

    text: str
    at: datetime | None = None


@dataclass(slots=True)
class Verdict:
    due: int = 0
    fired: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # occurrences by reason
    runs: int = 0
    lost: list[Finding] = field(default_factory=list)
    doubled: list[Finding] = field(default_factory=list)
    unheld: list[Finding] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.unheld)


def judge(evidence: Evidence) -> Verdict:
    verdict = Verdict(due=sum(map(len, evidence.due.values())), runs=len(evidence.runs))
    of_job: dict[UUID, list[FireRow]] = defaultdict(list)
    for fire in evidence.fires:
        of_job[fire.job].append(fire)
    for job in evidence.due.keys() | of_job.keys():
        _occurrences(verdict, job, evidence.due.get(job, ()), of_job[job])
    _effects(verdict, evidence)
    instants = {fire.id: fire.scheduled_for for fire in evidence.fires}
    verdict.unheld += [
        Finding(text, instants.get(fire)) for fire, text in _two_at_once(evidence.runs, evidence.lease_s)
    ]
    return verdict


def _occurrences(verdict: Verdict, job: UUID, due: Sequence[datetime], fires: Iterable[FireRow]) -> None:
    """I1, I4 and I7: every occurrence has one row, which has come to its end."""
    rows = Counter(dict.fromkeys(due, 0))
    for fire in fires:
        stands_for = _stands_for(fire, due)
        if not stands_for:
            verdict.doubled.append(_of(fire, "no occurrence of its job's schedule"))
        rows.update(stands_for)
        if fire.state == "succeeded":
            verdict.fired += 1
        elif fire.state == "skipped":
            verdict.skipped[fire.reason] += len(stands_for)
        else:
            verdict.lost.append(_of(fire, f"ended as {fire.state} {fire.reason}".rstrip()))
    for at, count in rows.items():
        if count == 0:
            verdict.lost.append(Finding(f"job {job} at {at.isoformat()}: no row", at))
        elif count > 1:
            verdict.doubled.append(Finding(f"job {job} at {at.isoformat()}: {count} rows", at))


def _stands_for(fire: FireRow, due: Sequence[datetime]) -> Sequence[datetime]:
    return due[bisect_left(due, fire.scheduled_for) : bisect_right(due, fire.covers_to or fire.scheduled_for)]


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


def _two_at_once(runs: Iterable[Run], lease_s: float) -> Iterator[tuple[UUID, str]]:
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
