"""What must hold when the world has come to rest: the rows against what the jobs' chronicles say, by arithmetic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from uuid import UUID

from scheduling.core.fire import State
from scheduling.store.memory_rows import Rows, StoredFire, StoredJob
from scheduling.testing.simulation.audit import Audit
from scheduling.testing.simulation.jobs import Chronicle
from scheduling.testing.simulation.workers import commits

FIRED = (State.SUCCEEDED, State.DEAD)


def check(rows: Rows, chronicles: dict[UUID, Chronicle], audit: Audit) -> Iterator[tuple[str, str]]:
    """(invariant, what is wrong), for each thing that is."""
    by_job: dict[UUID, list[StoredFire]] = defaultdict(list)
    for fire in rows.fires.values():
        by_job[fire.work.job_id].append(fire)
    for job_id, job in rows.jobs.items():
        own = [fire for fire in by_job[job_id] if not fire.origin]
        chronicle = chronicles[job_id]
        yield from _occurrences(job, own, list(chronicle.expected()), edited_at=chronicle.schedules[-1][0])
    for fire in rows.fires.values():
        yield from _end(fire, audit)
        yield from _letter(fire, rows)
    yield from _sums(rows, chronicles)


def _occurrences(
    job: StoredJob, fires: Iterable[StoredFire], expected: list[datetime], *, edited_at: datetime
) -> Iterator[tuple[str, str]]:
    """Each occurrence has a row of its own, or is one of those that a row stands for; what else there is never ran.

    (But what an edit took may run, if a second edit follows before its worker asks: a job knows its last edit only.)
    """
    wanted, name = set(expected), job.work.name
    own = {fire.scheduled_for: fire for fire in fires}
    shared = [at for at in expected if at not in own]
    spans = [(fire.scheduled_for, fire.covers_to) for fire in own.values() if fire.covers_to is not None]
    for at in shared:
        if not any(first < at <= last for first, last in spans):
            yield "I1", f"{name}: {at} has no row"
    counted = sum(fire.covers - 1 for fire in own.values())
    if counted != len(shared):
        yield "I1", f"{name}: {len(shared)} occurrences have no row of their own, and rows stand for {counted}"
    for fire in own.values():
        at, is_wanted = fire.scheduled_for, fire.scheduled_for in wanted
        if not is_wanted and fire.state in FIRED and edited_at < at:
            yield "I1", f"{name}: {at} ran, and is no occurrence"
        if is_wanted and fire.reason == "superseded" and edited_at < at:
            yield "I1", f"{name}: {at} is superseded, and no edit came after it"


def _end(fire: StoredFire, audit: Audit) -> Iterator[tuple[str, str]]:
    about = f"{fire.work.name} {fire.scheduled_for} {fire.origin} ({fire.id})"
    if fire.is_unfinished:
        yield (
            "I6",
            f"{about} is still {fire.state} {fire.reason}, fence {fire.fence}, {fire.number}, wakes {fire.wake_at}",
        )
    if fire.state in (State.SKIPPED, State.DEAD, State.PARKED) and not fire.reason:
        yield "I7", f"{about} is {fire.state} without a reason"
    due = 1 if fire.state is State.SUCCEEDED and commits(fire.id) else 0
    if audit.effects[fire.id] != due:
        yield "I2", f"{about} is {fire.state} and has {audit.effects[fire.id]} effects"


def _letter(fire: StoredFire, rows: Rows) -> Iterator[tuple[str, str]]:
    """Who is dead has a dead letter, of that death; nobody else has."""
    about, letter = f"{fire.work.name} {fire.scheduled_for} {fire.origin} ({fire.id})", rows.letters.get(fire.id)
    if fire.state is State.DEAD and letter is None:
        yield "I7", f"{about} is dead, and has no dead letter"
    elif letter is not None and (fire.state, fire.reason, fire.fence) != (State.DEAD, letter.reason, letter.fence):
        yield "I7", f"{about} is {fire.state} {fire.reason} with fence {fire.fence}, and its dead letter says {letter}"
    if fire.attempt > fire.max_attempts:
        yield "I7", f"{about} was tried {fire.attempt} times, and may be {fire.max_attempts} times"


def _sums(rows: Rows, chronicles: dict[UUID, Chronicle]) -> Iterator[tuple[str, str]]:
    """due = fired + skipped + pending, of each tenant and shard. What an edit took, claimed ahead, was never due."""
    due: Counter[tuple[int, int]] = Counter()
    ended: Counter[tuple[int, int]] = Counter()
    expected = {job_id: set(chronicle.expected()) for job_id, chronicle in chronicles.items()}
    for job_id, at in expected.items():
        work = rows.jobs[job_id].work
        due[work.tenant_id, work.shard] += len(at)
    for fire in rows.fires.values():
        if fire.origin:
            continue
        if fire.covers > 1 or fire.scheduled_for in expected[fire.work.job_id]:
            ended[fire.work.tenant_id, fire.work.shard] += fire.covers
    for place in due.keys() | ended.keys():
        if due[place] != ended[place]:
            yield "I5", f"of tenant and shard {place} {due[place]} were due, and {ended[place]} are accounted for"
