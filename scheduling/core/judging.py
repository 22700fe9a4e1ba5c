"""What becomes of fires that are due: too late by now, behind one that still runs, or to be published.

Lateness is judged a second time here: a fire that was claimed in time may have waited beyond its grace for its first
publication.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.effects import Settlement
from scheduling.core.fire import UNSENDABLE, Fire, State
from scheduling.core.judged_plan import misfire_rules
from scheduling.core.misfire import Candidate, judge
from scheduling.core.overlap import NOTHING_AHEAD, Decision, Predecessors, asks_to_stop, decide, recheck_s

MENDED_S = 60.0  # how often a fire that cannot be sent is looked at again


def late_s(fire: Fire, clock: Clock, now: float) -> float:
    """Real seconds since the later of ``fire_at`` and the claim; ``now`` is monotonic."""
    return now - max(clock.real_time(fire.fire_at), fire.claimed_at)


def judge_fires(fires: Sequence[Fire], clock: Clock) -> tuple[list[Fire], list[Settlement]]:
    """Divide fires that are about to be published, per job, by its misfire policy: those that still are, and the skips.

    Only the schedule's own fires are judged, and only before their first publication. What cannot be sent at all is
    settled too.
    """
    fires, unsent = _sendable(fires, clock)
    now = clock.monotonic()
    judged = [fire for fire in fires if not (fire.published or fire.origin or fire.attempt)]
    late_jobs = {
        fire.work.job_id
        for fire in judged
        if now - fire.claimed_at > fire.work.misfire_grace_s and late_s(fire, clock, now) > fire.work.misfire_grace_s
    }
    if not late_jobs:
        return list(fires), unsent
    skips = unsent
    of_late_jobs = sorted(
        (fire for fire in judged if fire.work.job_id in late_jobs), key=lambda f: (f.work.job_id, f.scheduled_for)
    )
    for _, group in groupby(of_late_jobs, key=lambda f: f.work.job_id):
        of_job = list(group)
        candidates = [Candidate(fire.scheduled_for, late_s(fire, clock, now), fire) for fire in of_job]
        judgement = judge(candidates, misfire_rules(of_job[0].work), now=clock.now())
        skips += [Settlement(skip.fire, State.SKIPPED, judgement.reason) for skip in judgement.skips if skip.fire]
    skipped = {settlement.fire.id for settlement in skips}
    return [fire for fire in fires if fire.id not in skipped], skips


def _sendable(fires: Sequence[Fire], clock: Clock) -> tuple[Sequence[Fire], list[Settlement]]:
    """Arguments that cannot be sent came into the row after these were claimed. What has begun, or was asked for by a
    person, waits until they are mended; the schedule's own are skipped, as at the claim.
    """
    unsent = [
        parked(fire, UNSENDABLE, clock, MENDED_S)
        if fire.attempt or fire.origin
        else Settlement(fire, State.SKIPPED, UNSENDABLE)
        for fire in fires
        if fire.work.problem
    ]
    return ([fire for fire in fires if not fire.work.problem] if unsent else fires), unsent


@dataclass(frozen=True, slots=True)
class Turns:
    """What becomes of fires whose jobs do not let them overlap what is unfinished."""

    publish: Sequence[Fire]
    settlements: Sequence[Settlement]  # those that wait, or are skipped
    newest: Sequence[Fire]  # of those that wait: what has begun before them is to be asked to stop


def judge_overlaps(fires: Sequence[Fire], counts: Mapping[UUID, Predecessors], clock: Clock) -> Turns:
    """Divide fires that are about to be published by the overlap policy of their jobs."""
    publish: list[Fire] = []
    settlements: list[Settlement] = []
    newest: list[Fire] = []
    for fire in fires:
        ahead = counts.get(fire.id, NOTHING_AHEAD)
        decision = decide(fire, ahead)
        if decision is Decision.DISPATCH:
            publish.append(fire)
        elif decision is Decision.PARK:
            settlements.append(parked(fire, "overlap", clock, recheck_s(fire, ahead)))
            if asks_to_stop(fire, ahead):
                newest.append(fire)
        else:
            settlements.append(Settlement(fire, State.SKIPPED, decision.value))
    return Turns(publish, settlements, newest)


def parked(fire: Fire, reason: str, clock: Clock, after_s: float) -> Settlement:
    """It is looked at again after so many real seconds."""
    return Settlement(fire, State.PARKED, reason, clock.job_time(clock.monotonic() + after_s))
