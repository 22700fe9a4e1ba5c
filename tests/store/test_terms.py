"""What tenants may have, as it is read: whole, and only when it has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from fairness.core.terms import LANES, Bound, Terms
from fairness.models import Limit, Tenant
from scheduling.core.fire import Lane
from scheduling.models import WorkerTask
from scheduling.store.connection import Connection, connector
from scheduling.store.terms import TermsReader
from scheduling.testing.clock import NOON


@pytest.fixture
def session(committed_db: None) -> Iterator[Connection]:
    session = connector(connection.get_connection_params(), name="terms")()
    yield session
    session.close()


def test_limits_are_of_the_lanes_that_jobs_have() -> None:
    assert set(LANES) == set(Lane)


def test_terms_have_the_tenants_own_bound_and_those_of_its_parts(session: Connection) -> None:
    acme = Tenant.objects.create(
        slug="acme",
        weight=3,
        transactional_weight=5,
        daily_fires=9,
        rate_per_s=2,
        burst=4,
        max_in_flight=7,
        is_strict=True,
    )
    Limit.objects.create(tenant=acme, lane="bulk", task="t", max_in_flight=1)
    reader = TermsReader()
    assert reader.read(session)
    assert reader.terms[acme.pk] == Terms(
        acme.pk, "acme", 3.0, 5.0, 9, {("", ""): Bound(2.0, 4, 7, True), ("bulk", "t"): Bound(None, 1, 1, False)}
    )
    default = Tenant.objects.get(slug="default")
    assert reader.terms[default.pk] == Terms(default.pk, "default")
    assert not reader.terms[default.pk].is_limited


def test_nothing_is_read_again_before_something_has_changed(session: Connection) -> None:
    acme, reader = Tenant.objects.create(slug="acme"), TermsReader()
    reader.read(session)
    with transaction.atomic():
        Tenant.objects.select_for_update().get(slug="acme")
    assert not reader.read(session)
    Tenant.objects.filter(slug="acme").update(weight=2)
    assert reader.read(session)
    assert reader.terms[acme.pk].weight == 2.0
    limit = Limit.objects.create(tenant=acme, lane="bulk", rate_per_s=1)
    assert reader.read(session)
    limit.delete()
    assert reader.read(session)
    assert not reader.terms[acme.pk].bounds
    acme.delete()
    assert reader.read(session)
    assert acme.slug not in {terms.slug for terms in reader.terms.values()}


def test_the_tasks_that_acquire_are_known(session: Connection) -> None:
    reader = TermsReader()
    reader.read(session)
    WorkerTask.objects.create(name="t", is_guarded=True, seen_at=NOON)
    WorkerTask.objects.create(name="plain", is_guarded=False, seen_at=NOON)
    assert reader.read(session)
    assert reader.guarded == {"t"}
