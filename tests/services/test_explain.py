"""Explanations from rows: why each waits, its place, who holds its place, and when it may start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from fairness import standings
from fairness.core.standing import TenantStanding
from fairness.models import Limit, Tenant, TenantQueue, WorkerReport
from scheduling.core.errors import InvalidField
from scheduling.core.why import Explained, Why
from scheduling.models import Fire, Hold, Job, Node, Shard, ShardProgress, Slot, WorkerTask
from scheduling.services.explain import explain_due, explain_fires, explain_job
from scheduling.services.pause import pause
from scheduling.store import explain
from tests.fires import make_fire, make_job

pytestmark = pytest.mark.django_db
SOON = timedelta(seconds=20)


@pytest.fixture
def acme() -> Tenant:
    return Tenant.objects.create(slug="acme")


@pytest.fixture
def owner() -> Node:
    """Lives, and owns every shard."""
    now = timezone.now()
    node = Node.objects.create(id="n1", started_at=now, lease_until=now + timedelta(minutes=5))
    Shard.objects.update(owner=node, epoch=1)
    return node


def stands(tenant: Tenant, *, node: str = "n1", **values: Any) -> None:
    """What a node says of the tenant."""
    given: dict[str, Any] = {"waiting": 5, "in_flight": 2, "weight": tenant.weight, "starts_per_s": 2.0, "mean_s": 0.5}
    connection.ensure_connection()
    row = TenantStanding(tenant_id=tenant.pk, lane="bulk", **given | values)
    standings.write(connection.connection, node, [row])


def works(*, seen_ago_s: float = 0.0) -> None:
    now = timezone.now()
    WorkerReport.objects.create(
        name="w1", started_at=now, seen_at=now - timedelta(seconds=seen_ago_s), interval_s=1, slots=4, busy=4,
        waiting=2, idle_s=0, ran=8, ran_s=4,
    )  # fmt: skip


def parked(job: Job, reason: str, *, ago_s: float = 60.0, **columns: Any) -> Fire:
    now = timezone.now()
    given: dict[str, Any] = {"state": "parked", "reason": reason, "wake_at": now + SOON}
    return make_fire(job, now - timedelta(seconds=ago_s), **given | columns)


def why(fire: Fire) -> Explained:
    return explain_fires([fire.id])[fire.id].explained


def test_a_fire_waits_behind_those_of_its_tenants_lane_that_were_due_before_it(acme: Tenant, owner: Node):
    job = make_job(tenant="acme")
    fires = [parked(job, "share", ago_s=60 - n) for n in range(5)]
    parked(make_job(tenant="acme", lane="transactional"), "share", ago_s=90)
    parked(make_job(tenant="default"), "share", ago_s=90)
    stands(acme)

    found = explain_fires([fire.id for fire in fires])
    assert [found[fire.id].explained.ahead for fire in fires] == [0, 1, 2, 3, 4]
    last = found[fires[-1].id].explained
    assert last.why is Why.SHARE
    assert (last.rank, last.tenants) == (1, 1)
    assert last.expected_at is not None
    assert last.expected_at - timezone.now() == pytest.approx(timedelta(seconds=2.25), abs=timedelta(seconds=1))


def test_tasks_of_a_tenant_take_turns(acme: Tenant, owner: Node):
    many, few = make_job("many", tenant="acme"), make_job("few", tenant="acme")
    for n in range(6):
        parked(many, "share", ago_s=60 - n)
    first, second = (parked(few, "share", ago_s=10 - n) for n in range(2))
    assert [why(fire).ahead for fire in (first, second)] == [0, 2]


def test_what_is_claimed_and_not_published_is_in_the_line_and_what_is_published_is_not(acme: Tenant, owner: Node):
    job = make_job(tenant="acme")
    ShardProgress.objects.filter(shard_id=job.shard_id).update(seq_epoch=1, seq=10)
    now = timezone.now()
    sent, waits = (make_fire(job, now - timedelta(seconds=9 - n), seq_epoch=1, seq=10 + n) for n in range(2))
    last = parked(job, "share", ago_s=1)
    stands(acme, waiting=2)
    assert why(waits).why is Why.SHARE
    assert why(last).ahead == 1
    assert why(sent).why is Why.SENT
    WorkerTask.objects.create(name=job.task, is_guarded=True, seen_at=now)
    assert why(sent).why is Why.QUEUE


def test_of_a_tenant_at_two_nodes_the_shards_owner_says_how_fast_it_goes(acme: Tenant, owner: Node):
    near, far = make_job(tenant="acme"), make_job(tenant="acme")
    now = timezone.now()
    other = Node.objects.create(id="n2", started_at=now, lease_until=now + timedelta(minutes=5))
    near_shard, far_shard = Shard.objects.order_by("id")[:2]
    near.shard_id, far.shard_id = near_shard.pk, far_shard.pk
    Shard.objects.filter(pk=far_shard.pk).update(owner=other)
    for n in range(4):
        parked(far, "share", ago_s=90 - n)
    fire = parked(near, "share")
    assert why(fire).ahead == 4  # no node has said anything
    stands(acme, starts_per_s=1.0)
    stands(acme, node="n2", starts_per_s=50.0)
    found = why(fire)
    assert found.ahead == 0
    assert found.expected_at is not None
    assert found.expected_at > now + timedelta(seconds=0.4)


def test_a_rate_says_when_tokens_are_back(acme: Tenant, owner: Node):
    Limit.objects.create(tenant=acme, task="send", rate_per_s=0.5)
    job = make_job("send", tenant="acme")
    first, second = parked(job, "rate"), parked(job, "rate", ago_s=30)
    stands(acme, reason="rate", until_s=4.0, in_flight=0)
    head, found = why(first), why(second)
    assert found.why is Why.RATE
    assert head.until is not None
    assert found.until == found.expected_at == head.until + timedelta(seconds=2)
    assert timedelta(seconds=0) < head.until - timezone.now() < timedelta(seconds=4)


def test_a_cap_names_who_has_its_places(acme: Tenant, owner: Node):
    job = make_job(tenant="acme")
    Tenant.objects.filter(pk=acme.pk).update(max_in_flight=1)
    now = timezone.now()
    lease: dict[str, Any] = {"lease_until": now + SOON, "holder": job.id, "started_at": now - SOON, "attempt": 1}
    runs = make_fire(job, now - timedelta(minutes=5), state="running", **lease)
    waits = parked(job, "cap")
    found = why(waits)
    assert found.why is Why.CAP
    assert found.holders[0].startswith(str(runs.id))

    Tenant.objects.filter(pk=acme.pk).update(is_strict=True)
    assert not why(waits).holders
    key = {"fire_id": runs.id, "scheduled_for": runs.scheduled_for, "history_days": runs.history_days}
    Slot.objects.create(tenant=acme, number=1, fence=runs.fence, taken_at=now, **key)
    assert why(waits).holders[0].startswith(str(runs.id))
    Slot.objects.update(fence=runs.fence + 1)  # another attempt's
    assert not why(waits).holders


def test_a_budget_that_is_spent_waits_for_the_next_day(acme: Tenant, owner: Node, set_time: Callable[[datetime], None]):
    Tenant.objects.filter(pk=acme.pk).update(daily_fires=10)
    fire = parked(make_job(tenant="acme"), "budget")
    found = why(fire)
    assert found.why is Why.BUDGET
    assert found.until is not None
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert found.until == midnight
    set_time(timezone.now())
    assert why(fire).until is None  # job time stands still


def test_what_may_not_overlap_names_the_fires_before_it(owner: Node):
    job = make_job(overlap="buffer_all")
    first = make_fire(job, timezone.now() - timedelta(minutes=5))
    found = why(parked(job, "overlap"))
    assert found.why is Why.OVERLAP
    assert found.holders[0].startswith(f"{first.id} of ")


def test_a_shard_that_nobody_owns_is_a_reason(acme: Tenant):
    fire = parked(make_job(tenant="acme"), "share")
    assert why(fire).why is Why.SHARD


def test_where_any_node_will_do_one_that_lives_is_enough(acme: Tenant, settings: Any):
    settings.SCHEDULING = settings.SCHEDULING | {"STOP": 2}
    fire = parked(make_job(tenant="acme"), "share")
    assert why(fire).words == "no node lives: start one with manage.py scheduler"
    now = timezone.now()
    Node.objects.create(id="n1", started_at=now, lease_until=now + SOON)
    assert why(fire).why is Why.SHARE


def test_a_message_that_no_worker_takes_says_so(acme: Tenant, owner: Node):
    job = make_job(tenant="acme")
    now = timezone.now()
    WorkerTask.objects.create(name=job.task, is_guarded=True, seen_at=now)
    fire = make_fire(job, now - SOON, confirmed=True)
    TenantQueue.objects.create(name="fairbeat.acme.bulk.v1", tenant=acme, lane="bulk", made_at=now, used_at=now)
    assert why(fire).words == "in the broker's queue (fairbeat.acme.bulk.v1), or with a worker"
    works(seen_ago_s=60)
    assert why(fire).why is Why.NO_WORKER
    WorkerReport.objects.all().delete()
    works()
    assert why(fire).why is Why.QUEUE
    TenantQueue.objects.update(retired_at=now)
    assert why(fire).why is Why.NO_WORKER


def test_due_occurrences_of_a_held_tenant_wait_behind_what_is_claimed_and_due_before_them(acme: Tenant, owner: Node):
    now = timezone.now()
    jobs = [Job.objects.once("t", now - timedelta(seconds=90 - n), tenant=acme) for n in range(4)]
    Job.objects.update(shard_id=7)
    parked(make_job(tenant="acme"), "share", ago_s=120)
    Hold.objects.create(shard_id=7, tenant=acme, since=now - timedelta(seconds=90))
    stands(acme)
    found = explain_due([job.pk for job in jobs])
    assert {found[job.pk].why for job in jobs} == {Why.SHARE}
    assert [found[job.pk].ahead for job in jobs] == [1, 2, 3, 4]


def test_where_a_shard_has_more_due_than_is_looked_at_a_place_is_at_least_so_many(
    acme: Tenant, owner: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(explain, "COUNTED", 2 * Shard.objects.count())
    now = timezone.now()
    jobs = [Job.objects.once("t", now - timedelta(seconds=90 - n), tenant=acme) for n in range(6)]
    Job.objects.update(shard_id=7)
    last = jobs[-1]
    Job.objects.filter(pk=last.pk).update(shard_id=8)
    stands(acme)
    found = explain_due([job.pk for job in jobs])
    assert [found[job.pk].ahead for job in jobs] == [0, 1, 2, 3, 4, 5]
    assert found[last.pk].ahead_is_least
    alone = explain_due([last.pk])[last.pk]
    assert (alone.ahead, alone.ahead_is_least) == (2, True)


def test_a_job_says_what_comes_next_and_why_each_unfinished_fire_waits(acme: Tenant, owner: Node):
    job = Job.objects.cron("t", "0 6 * * *", name="report", tenant=acme)
    waits = parked(job, "share")
    make_fire(job, timezone.now() - timedelta(hours=3), state="succeeded")
    found = explain_job(job)
    assert found.next.why is Why.NOT_DUE
    assert found.due_at == found.coming[0].fire_at
    assert [(fire.id, fire.explained.why) for fire in found.fires] == [(waits.id, Why.SHARE)]


def test_a_job_that_has_nothing_to_come_is_not_held(acme: Tenant, owner: Node):
    job = Job.objects.once("t", timezone.now(), name="report", tenant=acme)
    Hold.objects.create(tenant=acme, shard_id=job.shard_id, since=timezone.now())
    assert explain_job(job).held_since is not None
    Job.objects.filter(pk=job.pk).update(next_scheduled_for=None, next_fire_at=None)
    assert explain_job(job).held_since is None


def test_a_paused_job_says_by_whom_and_until_when(owner: Node):
    job = Job.objects.every("t", timedelta(minutes=5))
    until = timezone.now() + timedelta(hours=1)
    pause([job], reason="audit", by="ada", until=until)
    job.refresh_from_db()
    found = explain_job(job).next
    assert (found.why, found.until) == (Why.PAUSED, until)
    assert "paused by ada" in found.words


def test_a_deleted_job_and_what_can_be_no_fire_are_refused(owner: Node):
    job = make_job()
    Job.objects.filter(pk=job.pk).delete()
    with pytest.raises(InvalidField, match="was deleted"):
        explain_job(job)
    assert explain_fires([job.pk]) == {}
    with pytest.raises(InvalidField, match="is no id of a fire"):
        explain_fires([UUID(int=2**128 - 1)])


def test_many_fires_are_explained_in_as_many_queries_as_one(
    acme: Tenant, owner: Node, django_assert_num_queries: Callable[..., Any]
):
    job = make_job(tenant="acme")
    fires = [parked(job, "share", ago_s=60 - n) for n in range(10)]
    with django_assert_num_queries(6):
        explain_fires([fires[0].id])
    with django_assert_num_queries(6):
        explain_fires([fire.id for fire in fires])
