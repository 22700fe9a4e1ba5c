"""Two beats that start at the same time bring the same code to its jobs: one makes them, the other finds them."""

from __future__ import annotations

import pytest

from scheduling.conf import CodeJobs
from scheduling.core.clock import EPOCH
from scheduling.core.definition import JobDefinition, Kind, ScheduleFields
from scheduling.models import CodeEntry, Job
from scheduling.services.sync_entries import LOCK, Change, sync_entries
from tests import committed
from tests.processes import PATIENCE_S
from tests.store import conftest as of_stores
from tests.store.sessions import InThread, OpenSession, until_someone_waits

committed_db = committed.committed_db
test_database = committed.test_database
in_thread = of_stores.in_thread
open_session = of_stores.open_session


@pytest.mark.usefixtures("committed_db")
def test_two_syncs_at_once_make_each_job_once(in_thread: InThread, open_session: OpenSession) -> None:
    hourly = ScheduleFields(Kind.CRON, cron="0 * * * *")
    definitions = {name: JobDefinition(name=name, task="t", schedule=hourly) for name in ("a", "b", "c")}
    door = open_session("door")
    door.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    both = [in_thread(sync_entries, "shop", definitions, {}, policy=CodeJobs.KEEP) for _ in range(2)]
    until_someone_waits(2)
    door.execute("SELECT pg_advisory_unlock(%s)", [LOCK])

    changes = sorted({verdict.change for verdict in done.result(timeout=PATIENCE_S)} for done in both)
    assert sorted(map(sorted, changes)) == [[Change.NEW], [Change.SAME]]
    assert (Job.objects.count(), CodeEntry.objects.count()) == (3, 3)
    assert not Job.objects.filter(anchor=EPOCH).exists()
