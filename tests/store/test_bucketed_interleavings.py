"""Claims of entries against people and against other nodes: what waits for what, and what is never lost by it.

A claim is stopped in the middle by a lock on the table that its next entry goes to: by then it has taken the entry that
is due, and copied its fire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from scheduling.core.effects import ReadDue
from scheduling.core.errors import StaleEpoch
from scheduling.models import Entry, Fire, Job
from scheduling.services.pause import pause
from scheduling.store.bucketed import BucketedStore
from scheduling.store.buckets import bucket_of, leaf, slot_of_bucket
from scheduling.store.connection import connector
from scheduling.store.port import StoreUnavailable
from tests.store.owner import SHARDS, Owner, acquire, fire_at, rows
from tests.store.sessions import InThread, OpenSession, until_someone_waits

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IN_FLIGHT = NOON + MINUTE  # the occurrence that the claim in the middle is of


@pytest.fixture
def owner(committed_db: None) -> Iterator[Owner]:
    owner = Owner(NOON - MINUTE, make=BucketedStore)
    yield owner
    owner.store.close()


@pytest.fixture
def job(owner: Owner) -> Job:
    """Each minute; its noon is claimed, the next occurrence is an entry."""
    job = Job.objects.every("tests.none", MINUTE, anchor=NOON, misfire_grace_s=3600)
    owner.look(NOON)
    assert Job.objects.get().in_bucket
    owner.at(IN_FLIGHT)
    return job


@contextmanager
def claim_in_flight(owner: Owner, open_session: OpenSession, in_thread: InThread) -> Iterator[Future[Any]]:
    """Within it a claim of what is due at IN_FLIGHT is open; behind it the claim is over."""
    blocker = open_session("somebody")
    blocker.execute("BEGIN")
    blocker.execute(f"LOCK TABLE {table_of(IN_FLIGHT + MINUTE)} IN SHARE MODE".encode())
    claiming = in_thread(owner.look, IN_FLIGHT)
    try:
        until_someone_waits()
        yield claiming
    finally:
        blocker.execute("COMMIT")
    claiming.exception()


def table_of(at: datetime) -> str:
    return leaf(slot_of_bucket(bucket_of(at)))


def entries() -> list[str]:
    return [f"{entry.scheduled_for:%H:%M:%S} v{entry.schedule_version}" for entry in Entry.objects.all()]


def by_update(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(every=timedelta(minutes=2))


def by_save(job: Job) -> None:
    job = Job.objects.select_for_update().get(pk=job.pk)
    job.every = timedelta(minutes=2)
    job.save()


def by_raw_pause(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(paused_at=IN_FLIGHT)


def by_pause(job: Job) -> None:
    pause([job], reason="a release", by="anna")


def by_delete(job: Job) -> None:
    job.delete()


EDITED = ["12:00:00 claimed", "12:01:00 skipped superseded", "12:02:00 claimed"]
PAUSED = ["12:00:00 claimed", "12:01:00 skipped paused", "12:02:00 skipped paused"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (by_update, EDITED),
        (by_save, EDITED),
        (by_raw_pause, PAUSED),
        (by_pause, ["12:00:00 skipped paused", *PAUSED[1:]]),
        (by_delete, ["12:00:00 skipped cancelled"]),
    ],
)
def test_what_somebody_is_changing_is_left_alone_until_it_is_changed(
    change: Callable[[Job], None], expected: list[str], owner: Owner, job: Job
) -> None:
    """However long that takes, nothing that the old schedule has meanwhile is claimed; and no claim waits."""
    with transaction.atomic():
        change(job)
        owner.look(IN_FLIGHT)
        owner.look(IN_FLIGHT + MINUTE)
        assert Fire.objects.count() == 1
    owner.look(IN_FLIGHT + MINUTE)
    assert rows(job) == expected


def test_what_somebody_did_not_change_after_all_is_claimed_late(owner: Owner, job: Job) -> None:
    with transaction.atomic():
        by_update(job)
        owner.look(IN_FLIGHT)
        transaction.set_rollback(True)
    owner.look(IN_FLIGHT)
    assert rows(job) == ["12:00:00 claimed", "12:01:00 claimed"]


@pytest.mark.parametrize(
    ("change", "expected", "left"),
    [
        (by_update, ["12:00:00 claimed", "12:01:00 claimed"], ["12:02:00 v1"]),
        (by_raw_pause, ["12:00:00 claimed", "12:01:00 claimed"], ["12:02:00 v1"]),
        (by_pause, ["12:00:00 skipped paused", "12:01:00 skipped paused"], ["12:02:00 v1"]),
        (by_delete, ["12:00:00 skipped cancelled", "12:01:00 skipped cancelled"], ["12:02:00 v1"]),
    ],
)
def test_whoever_comes_while_a_claim_is_open_waits_for_it_and_sees_what_it_claimed(
    change: Callable[[Job], None],
    expected: list[str],
    left: list[str],
    owner: Owner,
    job: Job,
    open_session: OpenSession,
    in_thread: InThread,
) -> None:
    with claim_in_flight(owner, open_session, in_thread):
        changing = in_thread(change, job)
        until_someone_waits(2)
    changing.result()
    assert (rows(job), entries()) == (expected, left)


def test_an_edit_behind_an_open_claim_supersedes_nothing_that_was_claimed(
    owner: Owner, job: Job, open_session: OpenSession, in_thread: InThread
) -> None:
    with claim_in_flight(owner, open_session, in_thread):
        editing = in_thread(by_update, job)
        until_someone_waits(2)
    editing.result()
    owner.look(IN_FLIGHT + MINUTE * 3)
    assert rows(job) == ["12:00:00 claimed", "12:01:00 claimed", "12:02:00 claimed", "12:04:00 claimed"]
    assert (entries(), Job.objects.get().superseded) == ([], [])


def test_the_end_of_a_pause_waits_for_nobody_who_is_editing_its_job(owner: Owner, job: Job) -> None:
    owner.at(NOON + MINUTE / 4)
    pause([job], reason="a release", by="anna", until=NOON + MINUTE / 2)
    with transaction.atomic():
        Job.objects.update(description="new")
        owner.at(NOON + MINUTE * 3 / 4)
        owner.reap()
    assert Job.objects.get().paused_at is not None
    owner.reap()
    assert Job.objects.get().paused_at is None
    owner.look(IN_FLIGHT)
    assert rows(job)[1:] == ["12:01:00 claimed"]


def test_a_worker_may_start_a_fire_of_a_job_whose_next_claim_is_open(
    owner: Owner, job: Job, open_session: OpenSession, in_thread: InThread
) -> None:
    with claim_in_flight(owner, open_session, in_thread):
        assert acquire(fire_at(job, NOON)) == "runs"


# -- nodes -----------------------------------------------------------------------------------------------------------


def test_a_take_over_waits_for_an_open_claim_and_recovers_what_it_claimed(
    owner: Owner, job: Job, open_session: OpenSession, in_thread: InThread
) -> None:
    Fire.objects.update(state="succeeded", attempt=1)
    new = BucketedStore(connector(connection.get_connection_params(), name="new"))
    with claim_in_flight(owner, open_session, in_thread):
        taking = in_thread(new.take_over, SHARDS, "owner")
        until_someone_waits(2)
    _, recovered = taking.result()
    assert [(fire.scheduled_for, fire.fence) for fire in recovered] == [(IN_FLIGHT, 2)]
    assert new.due(ReadDue(frozenset(SHARDS), IN_FLIGHT, 10)).jobs == []
    (due,) = new.due(ReadDue(frozenset(SHARDS), IN_FLIGHT + MINUTE, 10)).jobs
    assert due.next_scheduled_for == IN_FLIGHT + MINUTE
    new.close()


def test_the_claim_of_a_node_that_was_taken_over_from_changes_nothing(owner: Owner, job: Job) -> None:
    new = BucketedStore(connector(connection.get_connection_params(), name="new"))
    new.take_over(SHARDS, "owner")
    with pytest.raises(StaleEpoch):
        owner.look(IN_FLIGHT)
    assert (rows(job), entries()) == (["12:00:00 claimed"], ["12:01:00 v1"])
    new.close()


def test_a_node_whose_connection_ends_in_the_middle_of_a_claim_leaves_nothing_half_done(
    owner: Owner, job: Job, open_session: OpenSession, in_thread: InThread
) -> None:
    with claim_in_flight(owner, open_session, in_thread) as claiming:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name LIKE '%owner'"
            )
        with pytest.raises(StoreUnavailable):
            claiming.result()
    assert (rows(job), entries()) == (["12:00:00 claimed"], ["12:01:00 v1"])
    owner.take_over()
    owner.look(IN_FLIGHT)
    assert (rows(job), entries()) == (["12:00:00 claimed", "12:01:00 claimed"], ["12:02:00 v1"])


# -- tables ----------------------------------------------------------------------------------------------------------


def grown(at: datetime) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size(%s)", [table_of(at)])
        return bool(cursor.fetchone()[0])


def test_a_table_is_truncated_once_it_is_empty_and_nobody_uses_it(
    owner: Owner, job: Job, open_session: OpenSession
) -> None:
    owner.look(IN_FLIGHT)
    owner.at(NOON + MINUTE * 10)
    reader, writer = open_session("reader"), open_session("writer")
    reader.execute("BEGIN")
    reader.execute(f"SELECT FROM {table_of(IN_FLIGHT)}".encode())
    owner.expire()
    assert grown(IN_FLIGHT)
    reader.execute("COMMIT")

    writer.execute("BEGIN")
    writer.execute("UPDATE scheduling_entry SET slot = %s", [slot_of_bucket(bucket_of(IN_FLIGHT))])
    owner.expire()
    writer.execute("COMMIT")
    owner.expire()
    assert entries() == ["12:02:00 v1"]
    assert grown(IN_FLIGHT)

    writer.execute("DELETE FROM scheduling_entry")
    owner.expire()
    assert not grown(IN_FLIGHT)
    assert not grown(IN_FLIGHT + MINUTE)
