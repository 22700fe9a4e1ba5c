"""How tenants stand, as nodes write it: standings over and over, what was served added up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F

from fairness import standings
from fairness.core.standing import GRANTS_KEPT, Grant, TenantStanding
from fairness.models import ServedShare, Standing, Tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Tenant:
    return Tenant.objects.create(slug="acme", weight=3)


def write(*rows: TenantStanding, node: str = "n1") -> None:
    connection.ensure_connection()
    standings.write(connection.connection, node, rows)


def standing(tenant: Tenant, lane: str = "bulk", **values: Any) -> TenantStanding:
    given = {"weight": tenant.weight, "waiting": 5, "in_flight": 2}
    return TenantStanding(tenant_id=tenant.pk, lane=lane, **given | values)


def test_a_standing_is_written_over_and_what_was_served_is_added_up(acme: Tenant) -> None:
    write(standing(acme, served_s=2.0, starts=4, throttled=1, backlogged_s=3.0, reason="rate", until_s=20, oldest_s=60))
    write(standing(acme, waiting=7, served_s=1.5, starts=3, refused=2, backlogged_s=3.0))

    row = Standing.objects.get()
    assert (row.node, row.tenant, row.lane, row.waiting, row.in_flight) == ("n1", acme, "bulk", 7, 2)
    assert (row.reason, row.until, row.oldest_at) == ("", None, None)
    shares = ServedShare.objects.all()  # two, where a minute has just ended
    assert sum(share.served_s for share in shares) == 3.5
    assert [sum(getattr(s, name) for s in shares) for name in ("starts", "throttled", "refused")] == [7, 1, 2]
    assert sum(share.backlogged_s for share in shares) == 6


def test_times_are_told_as_so_long_from_now_and_kept_by_the_databases_clock(acme: Tenant) -> None:
    write(standing(acme, reason="rate", until_s=20.0, oldest_s=60.0))
    row = Standing.objects.get()
    assert row.until is not None
    assert row.oldest_at is not None
    assert timedelta(seconds=19.9) < row.until - row.at <= timedelta(seconds=20.1)
    assert timedelta(seconds=59.9) < row.at - row.oldest_at <= timedelta(seconds=60.1)


def test_whoever_is_left_out_has_nothing_waiting_and_keeps_the_last_grants(acme: Tenant) -> None:
    fire = uuid4()
    write(standing(acme, grants=[Grant(fire_id=fire, ago_s=1.0)], starts_per_s=2.0))
    write(standing(acme, "transactional"), node="n2")
    write()

    left, other = Standing.objects.order_by("node")
    assert (left.waiting, left.in_flight, left.starts_per_s) == (0, 0, 0)
    assert [grant[0] for grant in left.grants] == [str(fire)]
    assert other.waiting == 5


def test_the_last_hundred_grants_are_kept_the_newest_first(acme: Tenant) -> None:
    fires = [uuid4() for _ in range(GRANTS_KEPT + 20)]
    for some in (fires[:60], fires[60:]):
        write(standing(acme, grants=[Grant(fire_id=f, ago_s=n / 10) for n, f in enumerate(reversed(some))]))
    write(standing(acme))

    assert [grant[0] for grant in Standing.objects.get().grants] == [str(f) for f in reversed(fires[20:])]


def test_a_tenant_that_is_gone_is_passed_over(acme: Tenant) -> None:
    gone = Tenant.objects.create(slug="gone")
    row = standing(gone, served_s=1.0)
    gone.delete()
    write(row, standing(acme))
    assert [row.tenant for row in Standing.objects.all()] == [acme]
    assert not ServedShare.objects.exists()


def test_a_tenant_that_waits_at_two_nodes_has_waited_once(acme: Tenant) -> None:
    for node in ("n1", "n2"):
        write(standing(acme, backlogged_s=3.0), node=node)
    assert sum(share.backlogged_s for share in ServedShare.objects.all()) == 3


def test_what_is_older_than_a_day_goes(acme: Tenant) -> None:
    write(standing(acme, served_s=1.0))
    write(standing(acme, served_s=1.0), node="gone")
    Standing.objects.update(at=F("at") - timedelta(days=2))
    ServedShare.objects.update(minute=F("minute") - timedelta(days=2))
    write(standing(acme))
    assert [row.node for row in Standing.objects.all()] == ["n1"]
    assert not ServedShare.objects.exists()


def test_refusals_by_a_quota_are_counted(acme: Tenant) -> None:
    connection.ensure_connection()
    for _ in range(2):
        standings.count_refused(connection.connection, acme.pk, 2)
    assert sum(share.refused for share in ServedShare.objects.all()) == 4
