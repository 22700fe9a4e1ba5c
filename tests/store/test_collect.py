"""What the collector writes of the broker's dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from fairness.models import Tenant
from fairness.queues import QueuePlan, choices
from scheduling.core import message
from scheduling.core.dead_message import DeadMessage, Death, read
from scheduling.core.fingerprint import essence, fingerprint
from scheduling.models import Fire, Job, JobRun
from scheduling.models.dead_letter import DeadLetter
from scheduling.models.job_run import NOBODY
from scheduling.models.worker_task import WorkerTask
from scheduling.store.collect import Collected, CollectStore
from scheduling.store.connection import Connection, connector
from scheduling.store.fates import Verdict
from scheduling.store.port import StoreUnavailable
from tests.fires import NOON, headers_of, make_fire, make_job, row_of
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.usefixtures("committed_db")

PLAN = QueuePlan()
FAR = datetime(2090, 1, 1, tzinfo=UTC)
DIED_AT = datetime(2026, 3, 2, 13, tzinfo=UTC)
TASK = "tests.collected"


@pytest.fixture
def store() -> Iterator[CollectStore]:
    store = CollectStore(connector(connection.get_connection_params(), name="collect"), owner_of=PLAN.owner_of)
    yield store
    store.close()


@pytest.fixture(autouse=True)
def _known(committed_db: None) -> None:
    WorkerTask.objects.create(name=TASK, is_guarded=True, seen_at=DIED_AT)


def dead(
    fire: Fire | None,
    death: Death = Death.REJECTED,
    *,
    body: bytes = message.body("[]", "{}"),
    tenant: str = "default",
    says: Mapping[str, Any] | None = None,
) -> DeadMessage:
    """The fire's message, as it died in the queue of this tenant; of no fire where there is none."""
    said = (headers_of(fire) if fire else {"task": "send", "id": "7"}) | dict(says or {})
    found = read(said, body, content_type="application/json", is_redelivered=False)
    return replace(found, death=death, queue=PLAN.queue_name(tenant, "bulk"), died_at=DIED_AT)


def fates(collected: list[Collected]) -> list[tuple[str, str, bool]]:
    return [(one.verdict.fate.value, one.verdict.reason, one.ended is not None) for one in collected]


def test_a_fire_that_was_delivered_too_often_goes_back_to_its_owner(store):
    fire = make_fire(make_job(TASK))
    with connector(connection.get_connection_params(), name="listens")() as listener:
        listener.execute("LISTEN fairbeat")
        (one,) = store.collect([dead(fire, Death.DELIVERY_LIMIT)])
        (notice,) = listener.notifies(timeout=PATIENCE_S, stop_after=1)

    row = row_of(fire)
    assert notice.payload == str(fire.shard_id)
    assert (row.state, row.reason, row.fence, row.attempt) == ("retry_wait", "undelivered", 2, 1)
    assert row.wake_at is not None
    run = JobRun.objects.get()
    assert (run.fire_id, run.fence, run.attempt, run.state) == (fire.id, 1, 1, "lost")
    assert "never acknowledged" in run.error
    assert one.ended is not None
    assert (one.ended.attempt, one.ended.task) == (1, TASK)
    assert not DeadLetter.objects.exists()


def test_without_attempts_left_it_dies_with_a_dead_letter_and_wakes_who_waits_for_its_turn(store):
    job = make_job(TASK, args=["a"], max_attempts=2, overlap="buffer_all")
    fire = make_fire(job, attempt=1, fence=3)
    later = NOON + timedelta(minutes=1)
    waits = make_fire(job, later, state="parked", reason="overlap", wake_at=FAR)

    (one,) = store.collect([dead(fire, Death.DELIVERY_LIMIT)])

    row, letter = row_of(fire), DeadLetter.objects.get()
    assert (row.state, row.reason, row.fence, row.attempt) == ("dead", "delivery_limit", 4, 2)
    assert row.finished_at is not None
    assert (letter.fire_id, letter.reason, letter.attempts, letter.fence) == (fire.id, "delivery_limit", 2, 4)
    assert (letter.task, letter.args, letter.tenant_id, letter.job_id) == (TASK, ["a"], job.tenant_id, job.id)
    assert (letter.queue, letter.message) == ("fairbeat.default.bulk.v1", None)
    assert letter.fingerprint == fingerprint(TASK, "delivery_limit", essence(letter.error))
    assert JobRun.objects.get().state == "lost"
    assert row_of(waits).wake_at != FAR
    assert one.ended is not None


def test_what_comes_back_of_a_deleted_job_dies_and_of_a_paused_one_waits(store):
    deleted, paused = make_fire(make_job(TASK)), make_fire(make_job(TASK))
    Job.objects.filter(pk=deleted.job_id).update(deleted_at=NOON)
    Job.objects.filter(pk=paused.job_id).update(paused_at=NOON)

    store.collect([dead(deleted), dead(paused)])

    assert (row_of(deleted).state, row_of(deleted).reason) == ("dead", "cancelled")
    assert row_of(paused).state == "retry_wait"
    assert {run.holder for run in JobRun.objects.all()} == {NOBODY}


@pytest.mark.parametrize(
    ("known", "body", "reason"),
    [(None, b"[[], {}, null]", "unknown_task"), (True, b"{", "undecodable"), (False, b"[[], {}, null]", "rejected")],
)
def test_a_fire_that_no_worker_will_take_dies_unstarted(store, known, body, reason):
    WorkerTask.objects.all().delete()
    if known is not None:
        WorkerTask.objects.create(name=TASK, is_guarded=known, seen_at=DIED_AT)
    fire = make_fire(make_job(TASK))

    store.collect([dead(fire, body=body)])

    row, letter = row_of(fire), DeadLetter.objects.get()
    assert (row.state, row.reason, row.attempt) == ("dead", reason, 0)
    assert (letter.reason, letter.attempts) == (reason, 0)
    assert (letter.message and bytes(letter.message)) == (b"{" if reason == "undecodable" else None)
    assert not JobRun.objects.exists()


@pytest.mark.parametrize("death", [Death.REJECTED, Death.DELIVERY_LIMIT])
def test_a_message_that_is_collected_twice_changes_nothing_more(store, death):
    fire = make_fire(make_job(TASK))
    dying = make_fire(make_job(TASK, max_attempts=1), NOON + timedelta(minutes=1))
    foreign = dead(None)
    batch = [dead(fire, death), dead(dying, death), foreign]
    store.collect(batch)
    before = _rows()

    again = store.collect([replace(one, is_redelivered=True) for one in batch])

    assert _rows() == before
    assert [fate for fate, _, is_ended in fates(again) if is_ended] == []
    assert len(before[1]) == 2, "the dying fire's, and the foreign one"


def test_two_copies_in_one_batch_count_one_attempt(store):
    fire = make_fire(make_job(TASK))
    collected = store.collect([dead(fire), dead(fire)])
    assert [is_ended for _, _, is_ended in fates(collected)] == [True, False]
    assert (row_of(fire).attempt, row_of(fire).fence) == (1, 2)


@pytest.mark.parametrize(
    "columns",
    [
        {"fence": 2},
        {"state": "succeeded", "attempt": 1},
        {"state": "running", "attempt": 1, "holder": "0" * 32, "lease_until": NOON, "started_at": NOON},
    ],
    ids=["claimed anew", "done", "running"],
)
def test_a_late_copy_changes_nothing(store, columns):
    fire = make_fire(make_job(TASK), **columns)
    before = _rows()
    (one,) = store.collect([dead(fire, says={message.FENCE: 1})])
    assert one.ended is None
    assert _rows() == before


def test_a_forged_message_is_kept_and_the_fire_that_it_names_is_left_alone(store):
    Tenant.objects.create(slug="acme")
    fire = make_fire(make_job(TASK))
    by_queue, by_header = dead(fire, tenant="acme"), dead(fire, tenant="acme", says={message.TENANT: "acme"})

    assert fates(store.collect([by_queue, by_header])) == [("kept", "forged", False)] * 2

    assert (row_of(fire).state, row_of(fire).fence) == ("claimed", 1)
    letters = DeadLetter.objects.filter(reason="forged", fire_id=None)
    assert set(letters.values_list("tenant__slug", flat=True)) == {"acme"}, "through whose queue it came"


def test_of_a_shared_queue_a_message_is_its_tenants_that_it_names_if_that_may_use_it(store):
    mine, forged = make_fire(make_job(TASK)), make_fire(make_job(TASK))
    may = PLAN.shared("default", "bulk", count=16)[1].name
    may_not = next(PLAN.shared_name(n, 16, "bulk") for n in range(16) if n not in choices("default", 16))
    messages = [
        replace(dead(fire, Death.DELIVERY_LIMIT), queue=queue) for fire, queue in ((mine, may), (forged, may_not))
    ]

    assert fates(store.collect(messages)) == [("given_back", "undelivered", True), ("kept", "forged", False)]

    letter = DeadLetter.objects.get()
    assert (letter.queue, letter.tenant) == (may_not, None)


def test_a_message_of_somebody_else_is_kept_with_its_beginning_and_where_and_when_it_died(store):
    store.collect([dead(None, body=b"\x00\xff not JSON\x00" + b"x" * 100_000)])

    letter = DeadLetter.objects.get()
    assert (letter.fire_id, letter.reason, letter.task) == (None, "undecodable", "send")
    assert (letter.queue, letter.died_at) == ("fairbeat.default.bulk.v1", DIED_AT)
    assert letter.tenant == Tenant.objects.get(slug="default")
    kept = bytes(letter.message or b"")
    assert kept.startswith(b"\x00\xff not JSON")
    assert len(kept) == 64 * 1024
    assert letter.fingerprint == fingerprint("send", "undecodable", essence(letter.error))


def test_alike_messages_that_died_in_the_same_second_are_all_kept(store):
    store.collect([dead(None), dead(None)])
    assert DeadLetter.objects.filter(reason="unknown_task").count() == 2


def test_one_message_that_cannot_be_written_keeps_none_of_the_others_back(store, monkeypatch):
    good, wrong = (make_fire(make_job(TASK), NOON + timedelta(minutes=minute)) for minute in range(2))
    write = store._end

    def refused(connection: Connection, message: DeadMessage, verdict: Verdict) -> Any:
        if message.task_id == str(wrong.id):
            connection.execute("SELECT 1/0")
        return write(connection, message, verdict)

    monkeypatch.setattr(store, "_end", refused)

    collected = store.collect([dead(wrong), dead(good)])

    assert fates(collected) == [("kept", "rejected", False), ("given_back", "undelivered", True)]
    assert (row_of(good).state, row_of(wrong).state) == ("retry_wait", "claimed")
    assert "division by zero" in DeadLetter.objects.get().error


def test_a_database_that_is_away_is_told_as_such(unique):
    params = connection.get_connection_params() | {"dbname": unique}
    with pytest.raises(StoreUnavailable):
        CollectStore(connector(params, name="collect"), owner_of=PLAN.owner_of).ping()


def _rows() -> tuple[list[Any], list[Any], list[Any]]:
    return (
        list(Fire.objects.order_by("id").values_list()),
        list(DeadLetter.objects.order_by("id").values_list()),
        list(JobRun.objects.order_by("id").values_list()),
    )
