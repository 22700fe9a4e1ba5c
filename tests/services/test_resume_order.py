"""The end of a pause beside others who lock many fires."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, connections

from scheduling.models import Fire, Job
from scheduling.services.resume import resume
from tests import committed
from tests.fires import make_fire, make_job
from tests.processes import PATIENCE_S
from tests.store.sessions import until_someone_waits

pytestmark = pytest.mark.usefixtures("committed_db")
committed_db = committed.committed_db
test_database = committed.test_database

LOCK = "SELECT FROM scheduling_fire WHERE id = %s FOR UPDATE NOWAIT"


def test_fires_come_back_in_the_order_in_which_all_lock_them_so_that_nobody_is_a_victim():
    job, paused_at = make_job(), datetime.now(UTC) - timedelta(minutes=30)
    Job.objects.filter(pk=job.pk).update(paused_at=paused_at, next_fire_at=None, next_scheduled_for=None)
    taken: dict[str, Any] = {"state": "skipped", "reason": "paused", "finished_at": datetime.now(UTC)}
    second, first = (
        make_fire(job, paused_at + timedelta(minutes=minute), fire_at=paused_at + timedelta(minutes=fires_at), **taken)
        for minute, fires_at in ((1, 9), (2, 3))  # jitter has turned them round
    )

    def resume_all() -> int:
        try:
            return resume(Job.objects.all(), by="y", catch_up="all").fires
        finally:
            connections["default"].close()

    with psycopg.connect(**connection.get_connection_params()) as other, ThreadPoolExecutor() as pool:
        other.execute(LOCK, [first.id])
        resumed = pool.submit(resume_all)
        until_someone_waits()
        other.execute(LOCK, [second.id])  # nobody has it yet
        other.commit()

        assert resumed.result(PATIENCE_S) == 2
    assert set(Fire.objects.values_list("state", flat=True)) == {"retry_wait"}
