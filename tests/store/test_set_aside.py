"""Whatever the bucketed store passes by while its tenant is full is found when it is full no more, however the clock,
the promoter, floods and take-overs come between: a long random story against the plain truth.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection

from scheduling.core.due import ScheduledJob
from scheduling.core.effects import ReadDue
from scheduling.models import Entry
from scheduling.store import bucket_backlog, set_aside
from scheduling.store.bucketed import BucketedStore
from scheduling.store.buckets import LATER, bucket_of, horizon_from, slot_of_bucket
from scheduling.testing.clock import NOON
from tests.claims import SECOND, every, make_work
from tests.store.backends import BucketedBackend

SHARDS = (1, 2)
TENANTS = (1, 2, 3, 4)
LIMIT = 6


class Story:
    """Entries as the truth has them, beside the store that reads them. A job fires once."""

    def __init__(self, backend: BucketedBackend, seed: int) -> None:
        assert isinstance(backend.store, BucketedStore)
        self.store, self.dice = backend.store, random.Random(seed)
        self.now, self.made = NOON, 0
        self.due_at: dict[UUID, tuple[datetime, int]] = {}  # with the tenant
        self.full: frozenset[int] = frozenset()
        self.epochs = dict(self.store.take_over(SHARDS, "node-1")[0])

    def write(self, count: int, ahead_s: float) -> None:
        """A claim does, of next occurrences."""
        entries = []
        tenant = self.dice.choice(TENANTS)
        for _ in range(count):
            self.made += 1
            work = make_work(self.made, shard=self.dice.choice(SHARDS), tenant_id=tenant)
            at = self.now + SECOND * self.dice.uniform(0, ahead_s)
            bucket = bucket_of(at)
            slot = slot_of_bucket(bucket) if at < horizon_from(self.now) else LATER
            entries.append(
                Entry(
                    job_id=work.job_id, slot=slot, shard_id=work.shard, tenant_id=tenant, schedule_version=1,
                    bucket=bucket, scheduled_for=at, fire_at=at,
                )
            )  # fmt: skip
            self.due_at[work.job_id] = at, tenant
            self.store._lows.written(work.shard, bucket, slot)
            self.store._entries._jobs[work.job_id] = ScheduledJob(work, every(), timedelta(0), 1, NOON)
        Entry.objects.bulk_create(entries)

    def read(self) -> int:
        """And claim what was found, or leave some of it."""
        most = {tenant: self.dice.randint(1, 3) for tenant in TENANTS if self.dice.random() < 0.5}
        found = self.store.due(ReadDue(frozenset(SHARDS), self.now, LIMIT, self.full, most))
        tenants = {due.work.tenant_id for due in found.jobs}
        assert not tenants & self.full
        assert all(due.next_fire_at is not None and due.next_fire_at <= self.now for due in found.jobs)
        self._check_the_rest(found.seen, found.more, {due.work.job_id for due in found.jobs})
        taken = [due.work.job_id for due in found.jobs if self.dice.random() < 0.9]
        Entry.objects.filter(job_id__in=taken).delete()
        for job in taken:
            del self.due_at[job]
        return len(found.jobs)

    def _check_the_rest(self, seen: frozenset[int], more: frozenset[tuple[int, int]], found: set[UUID]) -> None:
        """What was not found is where the read says that there may be more."""
        for job, (at, tenant) in self.due_at.items():
            if at <= self.now and tenant not in self.full and job not in found:
                shard = self.store._entries._jobs[job].work.shard
                assert shard not in seen or (tenant, shard) in more

    def others_are_all_found(self) -> None:
        for _ in range(400):
            due = [job for job, (at, tenant) in self.due_at.items() if at <= self.now and tenant not in self.full]
            if not due:
                return
            self.read()
        raise AssertionError(f"{len(due)} were never found")

    def step(self) -> None:
        match self.dice.choice(["pass", "pass", "write", "write", "flood", "read", "read", "full", "promote", "rest"]):
            case "pass":
                self.now += SECOND * self.dice.choice([0.3, 1, 7, 61, 600, 4000])
            case "write":
                self.write(self.dice.randint(1, 4), self.dice.choice([1, 60, 9000, -600]))  # or still due
            case "flood":
                self.write(30, self.dice.choice([1, 30, 600]))
            case "read":
                self.read()
            case "full":
                self.full = frozenset(self.dice.sample(TENANTS, self.dice.randint(0, 3)))
            case "promote":
                while self.store.promote(self.epochs, now=self.now):
                    pass
            case "rest":
                if self.dice.random() < 0.3:
                    self.epochs = dict(self.store.take_over(SHARDS, "node-1")[0])
                self.others_are_all_found()


@pytest.fixture
def backend(committed_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketedBackend]:
    for module, name, value in (
        (bucket_backlog, "STEPS", 3), (set_aside, "PROBES", 600), (set_aside, "PAIRS", 3)
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    made = BucketedBackend()
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(2))
def test_whatever_was_passed_by_is_found_in_the_end(backend: BucketedBackend, seed: int) -> None:
    story = Story(backend, seed)
    for _ in range(40):
        story.step()
    story.full = frozenset()
    while story.store.promote(story.epochs, now=story.now):
        pass
    story.others_are_all_found()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM scheduling_entry WHERE fire_at <= %s", [story.now])
        assert cursor.fetchone() == (0,)
