"""What a chaos run reads of the rows that it left."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from scheduling.models import JobRun
from scheduling.models.job_run import NOBODY, RunState
from tests.chaos.deeds import Deeds
from tests.chaos.evidence import read_evidence
from tests.fires import NOON, make_fire, make_job


@pytest.mark.django_db
def test_an_attempt_whose_message_the_broker_lost_is_no_start(tmp_path: Path) -> None:
    job = make_job(end_at=NOON + timedelta(hours=1))
    held, lost = make_fire(job), make_fire(job, NOON + timedelta(minutes=1))
    for fire, holder, state in ((held, uuid4(), RunState.FAILED), (lost, NOBODY, RunState.LOST)):
        JobRun.objects.create(
            id=uuid4(),
            fire_id=fire.id,
            fence=1,
            job=job,
            tenant=job.tenant,
            history_days=fire.history_days,
            scheduled_for=fire.scheduled_for,
            attempt=1,
            state=state,
            holder=holder,
            started_at=NOON,
            finished_at=NOON,
        )
    deeds = Deeds()
    deeds.deleted(job.pk, claimed_to=NOON)
    (tmp_path / "log").touch()

    assert [start.fire for start in read_evidence(tmp_path / "log", deeds).starts] == [held.id]
