"""The fleet as the service tells it: who is alive, who owns what, and how far behind each shard is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.core.latency import LatencyHistogram
from scheduling.models import Entry, Job, JobClock, Node, Shard, ShardProgress
from scheduling.services.cluster import Cluster, cluster
from scheduling.store.buckets import LATER, bucket_of, slot_of_bucket
from scheduling.store.cluster import ShardState
from scheduling.store.statements import statements
from tests.fires import make_fire

pytestmark = pytest.mark.django_db


def make_node(name: str, *, lease_s: float, **values: Any) -> Node:
    now = timezone.now()
    return Node.objects.create(id=name, started_at=now, lease_until=now + timedelta(seconds=lease_s), **values)


def due_job(seconds_ago: float) -> Job:
    """Due, and claimed by nobody."""
    return Job.objects.once("t", JobClock.objects.now() - timedelta(seconds=seconds_ago))


def behind(found: Cluster) -> dict[int, ShardState]:
    """The shards that are not up to date."""
    return {shard.id: shard for shard in found.shards if shard.lag_s or shard.unconfirmed}


def test_nodes_say_whether_they_live_what_they_own_and_how_fast_they_are() -> None:
    latency = LatencyHistogram()
    for ms in range(1, 101):
        latency.record(ms / 1000)
    make_node("a", lease_s=5, region="eu", weight=2.0, fires=100, latency=latency.to_dict())
    make_node("b", lease_s=-30)
    make_node("c", lease_s=-90_000)  # long gone
    make_node("d", lease_s=-90_000)
    Shard.objects.filter(id__lt=8).update(owner="a")
    Shard.objects.filter(id=63).update(owner="d")

    found = cluster()

    assert [(node.id, node.alive, node.shards) for node in found.nodes] == [
        ("a", True, 8),
        ("b", False, 0),
        ("d", False, 1),
    ]
    a, b = found.nodes[:2]
    assert (a.region, a.weight, a.fires) == ("eu", 2.0, 100)
    assert a.latency_ms == {"p50": pytest.approx(50, rel=0.03), "p99": pytest.approx(99, rel=0.03)}
    assert 4 < a.lease_left_s <= 5
    assert b.latency_ms == {"p50": None, "p99": None}
    assert -32 < b.lease_left_s <= -30
    assert (found.alive, found.owned, len(found.shards)) == (1, 8, 64)
    assert {shard.id for shard in found.shards if shard.owned} == set(range(8))
    assert found.shards[63].owner == "d"


def test_nothing_is_behind_while_nothing_is_due() -> None:
    Job.objects.once("t", JobClock.objects.now() + timedelta(seconds=30))
    assert behind(cluster()) == {}


def test_a_due_job_that_nobody_claimed_is_lag_of_its_shard() -> None:
    job = due_job(20)
    Job.objects.filter(pk=due_job(5).pk).update(shard_id=job.shard_id)
    (shard,) = behind(cluster()).values()
    assert (shard.id, shard.unconfirmed) == (job.shard_id, 0)
    assert 20 <= shard.lag_s < 25


@pytest.mark.parametrize("is_later", [False, True])
def test_a_due_entry_of_the_buckets_is_lag_too_to_the_second(is_later: bool) -> None:
    job = Job.objects.every("t", timedelta(minutes=1))
    for seconds, slot in ((20, None), (8, None), (-3000, None)):
        at = JobClock.objects.now() - timedelta(seconds=seconds)
        bucket = bucket_of(at)
        Entry.objects.create(
            job_id=job.pk, slot=(LATER if is_later else slot_of_bucket(bucket)) if slot is None else slot, shard_id=7,
            tenant_id=job.tenant_id, schedule_version=1, bucket=bucket, scheduled_for=at, fire_at=at,
        )  # fmt: skip
    (shard,) = behind(cluster()).values()
    assert shard.id == 7
    assert 20 <= shard.lag_s < 25


def test_a_fire_is_unconfirmed_while_it_is_due_and_beyond_the_watermark() -> None:
    now = JobClock.objects.now()
    job = Job.objects.once("t", now + timedelta(days=1))
    ShardProgress.objects.filter(shard_id=job.shard_id).update(seq_epoch=2, seq=10)
    for seconds, epoch, seq in ((40, 1, 99), (30, 2, 10), (20, 2, 11), (10, 2, 12), (-10, 2, 13)):
        make_fire(job, now - timedelta(seconds=seconds), seq_epoch=epoch, seq=seq)
    make_fire(job, now - timedelta(seconds=50), seq_epoch=2, seq=14, state="succeeded", attempt=1)

    found = cluster()

    (shard,) = behind(found).values()
    assert (shard.id, shard.watermark, shard.unconfirmed) == (job.shard_id, (2, 10), 2)
    assert 20 <= shard.lag_s < 25
    assert (found.lag_s, found.unconfirmed) == (shard.lag_s, 2)


def test_at_stop_2_a_fire_is_unconfirmed_until_the_broker_has_it_whatever_its_deadline_is_for() -> None:
    now = JobClock.objects.now()
    job = Job.objects.once("t", now + timedelta(days=1))
    make_fire(job, now - timedelta(seconds=20), claimed_until=now + timedelta(seconds=10))
    make_fire(job, now - timedelta(seconds=30), claimed_until=None, confirmed=True)
    make_fire(job, now - timedelta(seconds=40), claimed_until=now + timedelta(seconds=10), confirmed=True)
    (shard,) = behind(cluster()).values()
    assert (shard.id, shard.unconfirmed) == (job.shard_id, 1)
    assert 20 <= shard.lag_s < 25


def test_in_a_time_lapse_lag_is_real_time() -> None:
    JobClock.objects.create(job_origin=timezone.now(), speed=60.0)
    job = due_job(600)
    assert behind(cluster())[job.shard_id].lag_s == pytest.approx(10, abs=0.5)


def test_everything_is_read_by_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + statements("cluster")["shards"])
        plan = [line for (line,) in cursor]
    big = ("scheduling_job ", "scheduling_fire_", "scheduling_entry_")
    scans = [line for line in plan if " on " in line and any(table in line for table in big)]
    assert len(scans) > len(big)
    assert [line for line in scans if "Seq Scan" in line] == []


def test_the_summary_is_one_line() -> None:
    make_node("a", lease_s=5)
    Shard.objects.update(owner="a")
    assert str(cluster()) == "nodes alive: 1 of 1; shards owned: 64 of 64; lag: 0.0 s; unconfirmed: 0"
