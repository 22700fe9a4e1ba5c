"""A node whose tenants have limits and shares, whole, on a real database."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from fairness.models import Standing, Tenant, WorkerReport
from scheduling.core.fair_turns import HEAD_START
from scheduling.core.turn import FairLimits
from scheduling.models import Fire, Hold, Job, JobClock, WorkerTask
from scheduling.node import share_keeper
from tests.node.conftest import Start
from tests.processes import eventually

TASK = "tests.none"
FAIR, LIMITED = FairLimits(), FairLimits(bounds_lanes=False, exchanges=False)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_keeper, "LOOK_S", 0.05)
    monkeypatch.setattr(share_keeper, "EACH_S", 0.05)
    monkeypatch.setattr(share_keeper, "TELL_S", 0.1)


def due_jobs(count: int, tenant: Tenant, *, first: int = 0) -> set[UUID]:
    now = JobClock.objects.now()
    return {Job.objects.once(TASK, now, tenant=tenant, name=f"{tenant} {first + n}").pk for n in range(count)}


def workers(slots: int) -> None:
    """They have said that they are there, and that they acquire the fires of our task."""
    WorkerTask.objects.create(name=TASK, is_guarded=True, seen_at=timezone.now())
    given = {"started_at": timezone.now(), "interval_s": 1.0, "idle_s": 0.0, "ran": 0, "ran_s": 0.0, "waiting": 0}
    WorkerReport.objects.create(name="w", seen_at=Now(), slots=slots, busy=slots, **given)


def end(fires: Collection[UUID]) -> None:
    """As a worker would."""
    now = timezone.now()
    Fire.objects.filter(id__in=fires).update(state="succeeded", started_at=now, finished_at=now)


def test_what_is_beyond_a_tenants_rate_waits_in_the_store_and_is_no_misfire(start: Start) -> None:
    tenant = Tenant.objects.create(slug="slow", rate_per_s=0.001)  # a node without Redis begins with empty buckets
    due_jobs(5, tenant)
    node = start("a", fairness=LIMITED)
    eventually(lambda: Fire.objects.filter(state="parked", reason="rate").count() == 5)
    assert node.publisher.published == []
    Tenant.objects.update(rate_per_s=None)
    node.publisher.wait_for(5)
    eventually(lambda: set(Fire.objects.values_list("state", "reason")) == {("claimed", "")})


def test_under_a_cap_the_next_goes_when_one_is_over(start: Start) -> None:
    workers(8)
    tenant = Tenant.objects.create(slug="capped", max_in_flight=2, is_strict=True)
    due_jobs(4, tenant)
    node = start("a", fairness=LIMITED)
    first = node.publisher.wait_for(2)
    assert len(first) == 2
    end([first[0].id])
    assert len(node.publisher.wait_for(3)) == 3


def test_the_flood_waits_in_the_store_and_goes_as_workers_take_it(start: Start) -> None:
    workers(2)
    flood, other = Tenant.objects.create(slug="flood"), Tenant.objects.create(slug="other")
    due_jobs(30, flood)
    node = start("a", fairness=FAIR)
    first = node.publisher.wait_for(2)
    eventually(lambda: Fire.objects.filter(state="parked", reason="share").exists())
    depth = len(node.publisher.published)
    assert 2 <= depth <= 8
    eventually(lambda: Standing.objects.filter(tenant=flood, waiting__gt=0).exists())
    due_jobs(1, other)
    eventually(lambda: "other" in {fire.work.tenant for fire in node.publisher.published})
    assert len(node.publisher.published) == depth + 1, "it has a head start"
    end([fire.id for fire in first[:2]])
    ended = {fire.id for fire in first[:2]}
    while len(ended) < 31:
        more = {fire.id for fire in node.publisher.wait_for(min(31, len(ended) + 1))} - ended
        end(more)
        ended |= more
    eventually(lambda: not Hold.objects.exists())
    assert len(node.publisher.published) == 31


def test_of_a_tenant_of_which_enough_waits_no_more_is_claimed(start: Start) -> None:
    workers(2)
    flood, other = Tenant.objects.create(slug="flood"), Tenant.objects.create(slug="other")
    due_jobs(30, flood)
    node = start("a", fairness=FAIR)
    eventually(lambda: Fire.objects.filter(state="parked", reason="share").count() > 20)
    left = due_jobs(5, flood, first=30)
    due_jobs(1, other)
    eventually(lambda: Hold.objects.filter(tenant=flood).exists())
    eventually(lambda: "other" in {fire.work.tenant for fire in node.publisher.published})
    assert not Fire.objects.filter(job__in=left).exists()
    ended: set[UUID] = set()
    while len(ended) < 36:
        more = {fire.id for fire in node.publisher.wait_for(len(ended) + 1)} - ended
        end(more)
        ended |= more
    assert Fire.objects.filter(job__in=left, state="succeeded").count() == len(left)


def test_a_new_owner_counts_what_is_with_the_workers(start: Start) -> None:
    workers(2)
    tenant = Tenant.objects.create(slug="flood")
    due_jobs(20, tenant)
    before = start("a", fairness=FAIR)
    before.publisher.wait_for(2)
    eventually(lambda: Fire.objects.filter(state="parked").exists())
    before.stop()
    before.ended()
    first = before.publisher.published
    after = start("b", fairness=FAIR)
    eventually(lambda: Standing.objects.filter(node="b", in_flight__gte=len(first)).exists())
    assert len(after.publisher.published) <= HEAD_START
    end([fire.id for fire in first])
    after.publisher.wait_for(HEAD_START + 1)  # of what the first had stored: it is not looked for in half a minute only
