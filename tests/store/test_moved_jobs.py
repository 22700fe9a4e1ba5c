"""A job that changes hands: what it has begun stays its tenant's, and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection

from fairness.models import Tenant
from scheduling.core import message
from scheduling.core.fire import Fire as HeldFire
from scheduling.models import Fire, Job
from scheduling.store.connection import connector
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired
from scheduling.store.polling import PollingStore
from scheduling.testing.clock import NOON
from scheduling.worker.fired import fired
from tests.store.owner import SHARDS, Owner

pytestmark = pytest.mark.usefixtures("committed_db")

MINUTE = timedelta(minutes=1)


@pytest.fixture(params=[30, 7], ids=["of the same history", "of a shorter one"])
def new_tenant(request: pytest.FixtureRequest, committed_db: None) -> Tenant:
    return Tenant.objects.create(slug="acme", history_days=request.param)


@pytest.fixture
def owner(committed_db: None) -> Iterator[Owner]:
    made = Owner(NOON)
    yield made
    made.store.close()


@pytest.fixture
def begin(owner: Owner, new_tenant: Tenant) -> Callable[..., None]:
    """An occurrence is claimed, and in this state, when its job goes to another tenant."""

    def moved(**columns: object) -> None:
        job = Job.objects.cron("tests.none", "* * * * *")
        owner.look(NOON + MINUTE)
        Fire.objects.update(**columns)
        Job.objects.filter(pk=job.pk).update(tenant=new_tenant)

    return moved


def runs(fire: HeldFire) -> bool:
    """Whether a worker that is given its message may run it."""
    found = fired(str(fire.id), message.headers(fire, origin="n@test", ignore_result=True), pid=1)
    assert found is not None
    return isinstance(PostgresLedger("default", lease=MINUTE).acquire(found.delivery), Acquired)


def test_what_waits_for_a_retry_runs(owner: Owner, begin: Callable[..., None]) -> None:
    begin(state="retry_wait", attempt=1, wake_at=NOON)
    (fire,) = owner.waiting(NOON + MINUTE)
    assert (fire.work.tenant, fire.work.history_days) == ("default", 30)
    Fire.objects.update(state="claimed")
    assert runs(fire)


def test_what_the_last_owner_left_runs(owner: Owner, begin: Callable[..., None]) -> None:
    begin()
    (fire,) = owner.store.take_over(SHARDS, "owner")[1]
    assert runs(fire)


def test_at_stop_2_too(begin: Callable[..., None], owner: Owner) -> None:
    begin(state="retry_wait", attempt=1, wake_at=NOON)
    connect = connector(connection.get_connection_params(), name="poller")
    store = PollingStore(connect, shards=64, grace=MINUTE, confirm_s=30)
    fires = [fire for fire in store.poll(owner.clock, limit=10) if fire.attempt]
    store.close()
    assert [runs(fire) for fire in fires] == [True]


def test_the_next_occurrence_is_the_new_tenants(owner: Owner, begin: Callable[..., None]) -> None:
    begin()
    (plan,) = owner.look(NOON + 2 * MINUTE)
    assert {row.fire.work.tenant for row in plan.rows} == {"acme"}
