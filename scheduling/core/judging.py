"""What becomes of fires that are due: too late by now, behind one that still runs, or to be published.

Lateness is judged a second time here: a fire that was claimed in time may have waited beyond its grace for its first
publication.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.effects import Settlement
from scheduling.core.fire import Fire, State
from scheduling.core.misfire import Candidate, judge
from scheduling.core.overlap import Decision, Predecessors, decide, recheck_s
from scheduling.core.planning import misfire_rules

NOTHING_AHEAD = Predecessors(0, 0)


def late_s(fire: Fire, clock: Clock, now: float) -> float:
    """Real seconds since the later of ``fire_at`` and the claim; ``now`` is monotonic."""
    return now - max(clock.real_time(fire.fire_at), fire.claimed_at)


def judge_fires(fires: Sequence[Fire], clock: Clock) -> tuple[list[Fire], list[Settlement]]:
    """Divide fires that are about to be published, per job, by its misfire policy: those that still are, and the skips.

    Only the schedule's own fires are judged, and only before their first publication.
    """
    now = clock.monotonic()
    judged = [fire for fire in fires if not (fire.published or fire.origin or fire.attempt)]
    late_jobs = {
        fire.work.job_id
        for fire in judged
        if now - fire.claimed_at > fire.work.misfire_grace_s and late_s(fire, clock, now) > fire.work.misfire_grace_s
    }
    if not late_jobs:
        return list(fires), []
    skips: list[Settlement] = []
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


def judge_overlaps(
    fires: Sequence[Fire], counts: Mapping[UUID, Predecessors], clock: Clock
) -> tuple[list[Fire], list[Settlement]]:
    """Divide fires that are about to be published by the overlap policy of their jobs: those that still are, and those
    that wait or are skipped.
    """
    publish: list[Fire] = []
    settlements: list[Settlement] = []
    for fire in fires:
        ahead = counts.get(fire.id, NOTHING_AHEAD)
        decision = decide(fire, ahead)
        if decision is Decision.DISPATCH:
            publish.append(fire)
        elif decision is Decision.PARK:
            settlements.append(parked(fire, "overlap", clock, recheck_s(fire, ahead)))
        else:
            settlements.append(Settlement(fire, State.SKIPPED, decision.value))
    return publish, settlements


def parked(fire: Fire, reason: str, clock: Clock, after_s: float) -> Settlement:
    """It is looked at again after so many real seconds."""
    return Settlement(fire, State.PARKED, reason, clock.job_time(clock.monotonic() + after_s))
