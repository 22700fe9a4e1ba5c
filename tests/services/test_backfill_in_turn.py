"""A backfill one at a time, from the service to the workers: never two at once, and the next as soon as one ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection

from scheduling.models import Fire, Job, JobClock
from scheduling.services.backfill import backfill
from scheduling.store.connection import connector
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired
from scheduling.store.polling import PollingStore
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, job_id
from tests.fires import delivery_of
from tests.store.backends import SHARDS, PostgresBackend

COUNT = 5


@pytest.fixture
def job(committed_db: None) -> Job:
    JobClock.objects.create(job_origin=NOON)
    world = PostgresBackend()
    world.add(1, -60 * COUNT)
    world.store.close()
    Job.objects.update(next_scheduled_for=None, next_fire_at=None)
    return Job.objects.get(pk=job_id(1))


@pytest.fixture
def poller(job: Job) -> Iterator[PollingStore]:
    connect = connector(connection.get_connection_params(), name="poller")
    store = PollingStore(connect, shards=SHARDS, grace=timedelta(seconds=5), confirm_s=30)
    yield store
    store.close()


def test_the_next_goes_out_when_the_one_before_has_ended(job: Job, poller: PollingStore) -> None:
    ledger = PostgresLedger("default", lease=timedelta(seconds=30))
    assert backfill(job, start=NOON - SECOND * 60 * COUNT, until=NOON - SECOND, by="anna", rate_per_s=10).made == COUNT
    JobClock.objects.update(job_origin=NOON + SECOND * 10)
    clock, order = ManualClock(NOON + SECOND * 10), []
    for _ in range(COUNT):
        [fire] = poller.poll(clock, limit=100)
        assert poller.poll(clock, limit=100) == []  # it is on its way to a worker
        order.append(fire.scheduled_for)
        acquired = ledger.acquire(delivery_of(Fire.objects.by_id(fire.id)))
        assert isinstance(acquired, Acquired)
        clock.advance(30)
        JobClock.objects.update(job_origin=clock.now())
        assert poller.poll(clock, limit=100) == []  # it runs
        ledger.complete(acquired, worker="w", result="")
    assert order == sorted(order)
    assert set(Fire.objects.values_list("state", flat=True)) == {"succeeded"}


def test_without_waiting_for_one_another_they_go_out_together(job: Job, poller: PollingStore) -> None:
    backfill(job, start=NOON - SECOND * 60 * COUNT, until=NOON - SECOND, by="anna", rate_per_s=1000, overlap="allow")
    assert len(poller.poll(ManualClock(NOON + SECOND), limit=100)) == COUNT
