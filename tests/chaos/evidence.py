"""Reads what a run has left: every occurrence told anew from the schedules; rows of the ledger, effects, runs, dead
letters.
"""

from __future__ import annotations

from pathlib import Path

from django.db import connection

from project.demo.models import Effect
from scheduling.core.clock import EPOCH
from scheduling.core.definition import Kind
from scheduling.models import DeadLetter, Fire, Job, JobRun
from scheduling.models.job_run import NOBODY
from tests.chaos import runlog
from tests.chaos.deeds import Deeds, Limited, Made, Owed, owed
from tests.chaos.judge import Evidence, FireRow, Start
from tests.chaos.load import LIMITS
from tests.chaos.settings import FIRE_LEASE_S

UNSETTLED = """
SELECT (SELECT count(*) FROM scheduling_job WHERE next_fire_at IS NOT NULL)
     + (SELECT count(*) FROM scheduling_entry)
     + (SELECT count(*) FROM scheduling_fire WHERE state IN ('claimed', 'parked', 'retry_wait', 'running'))
"""
OF_FIRES = "pk", "job_id", "scheduled_for", "state", "reason", "covers_to", "attempt", "max_attempts"
OF_LETTERS = "task", "error", "traceback"  # texts in which the mark of a message may be


def count_unsettled(deeds: Deeds) -> int:
    """Occurrences that still have to be claimed, fires that have not come to their end, messages not yet collected."""
    with connection.cursor() as cursor:
        cursor.execute(UNSETTLED)
        count: int = cursor.fetchone()[0]
    return count + len(unread(deeds))


def unread(deeds: Deeds) -> set[str]:
    """The marks of messages that are in no dead letter."""
    if not deeds.marks:
        return set()
    texts = []
    for letter in DeadLetter.objects.filter(fire_id=None):
        texts += [getattr(letter, name) for name in OF_LETTERS]
        texts += [str(letter.args), str(letter.kwargs), bytes(letter.message or b"").decode("latin-1")]
    found = "\n".join(texts)
    return {mark for mark in deeds.marks if mark not in found}


def read_evidence(log: Path, deeds: Deeds) -> Evidence:
    """All jobs have a ``end_at`` that is past."""
    watched = {ban.job for ban in deeds.bans} | deeds.edits.keys()
    fires = Fire.objects.order_by().values_list(*OF_FIRES)
    starts = JobRun.objects.order_by().filter(job__in=watched).exclude(holder=NOBODY)
    letters = DeadLetter.objects.order_by().filter(redriven_at=None).values_list("fire_id", "reason")
    return Evidence(
        owed={job.pk: _owed(job, deeds) for job in Job.objects.all()},
        fires=[FireRow._make(row) for row in fires.iterator()],
        effects=list(Effect.objects.values_list("fire_id", flat=True)),
        runs=runlog.read(log.read_text().splitlines()),
        lease_s=FIRE_LEASE_S,
        starts=[Start._make(row) for row in starts.values_list("fire_id", "job_id", "scheduled_for", "started_at")],
        bans=deeds.bans,
        letters={fire: reason for fire, reason in letters if fire is not None},
        deaths=deeds.deaths,
        unread=unread(deeds),
        limits=_limits(deeds),
    )


def _limits(deeds: Deeds) -> list[Limited]:
    """A cap holds always. Of a rate the log of runs tells only where a run starts soon after it was admitted."""
    found = []
    for slug, bound in LIMITS.items():
        jobs = frozenset(Job.objects.filter(tenant__slug=slug).values_list("pk", flat=True))
        if bound.max_in_flight is not None:
            found.append(Limited(slug, jobs, bound))
        if bound.rate_per_s is not None:
            found += [Limited(slug, jobs, bound, since_ns, until_ns) for since_ns, until_ns in deeds.rated]
    return found


def _owed(job: Job, deeds: Deeds) -> Owed:
    """An edited job's row says the last of its schedules alone."""
    assert job.end_at is not None, f"{job} never ends"
    edits, deletion = deeds.edits.get(job.pk, []), deeds.deletions.get(job.pk)
    return owed(deeds.made.get(job.pk) or made(job), edits, until=job.end_at, deletion=deletion)


def made(job: Job) -> Made:
    """Of a job that was not edited: its schedule counts from its making on; a single instant, whenever it is."""
    assert job.schedule_changed_at is not None
    return Made(job.schedule, EPOCH if job.kind == Kind.ONCE else job.schedule_changed_at)
