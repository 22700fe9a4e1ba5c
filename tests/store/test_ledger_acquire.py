"""Acquire: which deliveries the ledger lets run, and what it writes of the others, on one connection."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from fairness.models import Tenant
from scheduling.core.identity import fire_id
from scheduling.models import DeadLetter, Fire, Job
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Delivery, Refusal, Refused
from tests.fires import NOON, delivery_of, make_fire, make_job, row_of
from tests.store.ledger_plans import acquired, keep_all_plans

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def test_acquire_makes_a_claimed_fire_running_with_its_first_attempt(ledger):
    job = make_job(max_attempts=5, retry_base=timedelta(seconds=7), retry_cap=timedelta(minutes=2))
    fire = make_fire(job)
    delivery = delivery_of(fire)

    verdict = acquired(ledger, delivery)

    row = row_of(fire)
    assert (row.state, row.attempt, row.holder, row.fence) == ("running", 1, delivery.holder, 1)
    assert row.lease_until
    assert row.started_at
    assert row.lease_until - row.started_at >= timedelta(seconds=29)
    assert (verdict.attempt, verdict.max_attempts, verdict.exclusive) == (1, 5, False)
    assert (verdict.retry_base, verdict.retry_cap) == (timedelta(seconds=7), timedelta(minutes=2))


def test_acquire_repeated_by_its_holder_counts_no_second_attempt(ledger):
    delivery = delivery_of(make_fire(make_job()))
    first = acquired(ledger, delivery)

    assert acquired(ledger, delivery) == first
    assert Fire.objects.get().attempt == 1


def test_a_second_delivery_of_a_running_fire_is_refused_even_past_its_lease(ledger):
    fire = make_fire(make_job())
    acquired(ledger, delivery_of(fire))
    Fire.objects.update(lease_until=NOON - HOUR)

    assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.RUNNING)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"fence": 3}, Refusal.STALE_FENCE),
        ({"state": "succeeded", "attempt": 1}, Refusal.DONE),
        ({"state": "dead", "reason": "attempts_exhausted", "attempt": 3}, Refusal.DONE),
        ({"state": "skipped", "reason": "missed"}, Refusal.DONE),
        ({"state": "retry_wait", "reason": "failed", "wake_at": NOON, "attempt": 1}, Refusal.WAITING),
        ({"state": "parked", "reason": "overlap", "wake_at": NOON}, Refusal.WAITING),
        (
            {"state": "running", "attempt": 1, "holder": uuid.UUID(int=1), "lease_until": NOON, "started_at": NOON},
            Refusal.RUNNING,
        ),
    ],
)
def test_acquire_refuses_and_changes_nothing(ledger, columns, reason):
    fire = make_fire(make_job(), **columns)
    before = Fire.objects.values().get()

    assert ledger.acquire(delivery_of(fire, fence=1)) == Refused(reason)
    assert Fire.objects.values().get() == before


class TestForged:
    """A message that names a fire which is not its tenant's."""

    @pytest.fixture
    def fire(self) -> Fire:
        Tenant.objects.create(slug="other")
        return make_fire(make_job())

    @pytest.mark.parametrize("tenant", ["other", "nobody", ""])
    def test_it_is_refused_and_leaves_no_trace(self, ledger, fire, tenant):
        before = Fire.objects.values().get()

        for _ in range(2):
            assert ledger.acquire(replace(delivery_of(fire), tenant=tenant)) == Refused(Refusal.FORGED)
        assert Fire.objects.values().get() == before
        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired), "the true one runs"

    def test_so_is_one_that_names_another_job(self, ledger, fire):
        delivery = replace(delivery_of(fire), job_id=make_job(tenant="other").id)

        assert ledger.acquire(delivery) == Refused(Refusal.FORGED)

    def test_it_is_told_nothing_of_the_fire(self, ledger, fire):
        Fire.objects.update(state="succeeded", fence=7)

        assert ledger.acquire(replace(delivery_of(fire, fence=1), tenant="other")) == Refused(Refusal.FORGED)

    def test_a_running_fire_is_not_lent_to_it_whatever_holder_it_names(self, ledger, fire):
        delivery = delivery_of(fire)
        acquired(ledger, delivery)

        assert ledger.acquire(replace(delivery, tenant="other")) == Refused(Refusal.FORGED)

    def test_a_tenant_that_was_made_anew_is_known_by_its_new_row(self, ledger):
        Tenant.objects.create(id=501, slug="phoenix")
        acquired(ledger, delivery_of(make_fire(make_job(tenant="phoenix"))))
        Fire.objects.all().delete()
        Job.objects.all()._raw_delete("default")
        Tenant.objects.filter(pk=501).delete()
        Tenant.objects.create(id=502, slug="phoenix")

        acquired(ledger, delivery_of(make_fire(make_job(tenant="phoenix"))))


def test_a_message_whose_row_is_gone_is_refused(ledger):
    fire = make_fire(make_job())
    Fire.objects.all().delete()

    assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.GONE)


def test_a_message_whose_partition_never_was_is_refused(planning_ledger):
    job = make_job()
    scheduled_for = NOON - timedelta(days=400)
    delivery = Delivery(
        fire_id=fire_id(job.id, scheduled_for),
        job_id=job.id,
        tenant=job.tenant.slug,
        scheduled_for=scheduled_for,
        history_days=7,
        fence=1,
        holder=uuid.uuid4(),
    )

    assert planning_ledger.acquire(delivery) == Refused(Refusal.GONE)


def test_a_fire_whose_job_row_is_gone_is_refused(ledger):
    fire = make_fire(make_job())
    Job.objects.filter(pk=fire.job_id)._raw_delete("default")

    assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.DELETED)


@pytest.mark.usefixtures("stopped_clock")
class TestJudgement:
    """What became of the job since the message was sent, judged and written by the acquire."""

    def paused(self, job: Job) -> None:
        Job.objects.filter(pk=job.pk).update(paused_at=NOON)

    def test_a_paused_job_skips_its_unstarted_fire(self, ledger):
        fire = make_fire(make_job())
        self.paused(fire.job)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.PAUSED)
        row = row_of(fire)
        assert (row.state, row.reason, row.attempt) == ("skipped", "paused", 0)
        assert row.finished_at is not None

    def test_a_paused_job_gives_a_started_fire_back_to_its_owner_until_resume(self, ledger):
        fire = make_fire(make_job(), attempt=1, fence=2)
        self.paused(fire.job)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.PAUSED)
        row = row_of(fire)
        assert (row.state, row.reason, row.attempt, row.fence) == ("retry_wait", "paused", 1, 2)
        assert row.wake_at == NOON + timedelta(minutes=1)
        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.PAUSED), "a copy of the message"

    @pytest.mark.parametrize(("until_s", "runs"), [(60, True), (61, False)])
    def test_a_pause_ends_by_itself_on_the_job_clock(self, ledger, until_s, runs):
        fire = make_fire(make_job())
        Job.objects.update(paused_at=NOON, paused_until=NOON + timedelta(seconds=until_s))

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired) is runs

    @pytest.mark.parametrize("origin", ["manual:1", "backfill:7"])
    def test_what_a_person_asked_for_runs_though_the_job_is_paused(self, ledger, origin):
        fire = make_fire(make_job(), origin=origin)
        self.paused(fire.job)

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)

    def test_a_fire_after_an_edit_of_an_older_schedule_is_superseded(self, ledger):
        fire = make_fire(make_job(), schedule_version=1)
        Job.objects.filter(pk=fire.job_id).update(schedule_version=2, schedule_changed_at=NOON - HOUR)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.SUPERSEDED)
        assert (row_of(fire).state, row_of(fire).reason) == ("skipped", "superseded")

    @pytest.mark.parametrize(
        "columns", [{"attempt": 1}, {"origin": "manual:1"}, {"schedule_version": 2}], ids=lambda c: next(iter(c))
    )
    def test_an_edit_leaves_alone_what_started_what_was_asked_for_and_what_is_new(self, ledger, columns):
        fire = make_fire(make_job(), **columns)
        Job.objects.filter(pk=fire.job_id).update(schedule_version=2, schedule_changed_at=NOON - HOUR)

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)

    def test_an_edit_leaves_alone_what_was_scheduled_before_it(self, ledger):
        fire = make_fire(make_job())
        Job.objects.filter(pk=fire.job_id).update(schedule_version=2, schedule_changed_at=NOON)

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)

    def test_an_unstarted_fire_expires_on_the_job_clock_from_when_it_was_to_fire(self, ledger):
        job = make_job(expires_after=timedelta(seconds=60))
        late, jittered = make_fire(job), make_fire(job, NOON - HOUR, fire_at=NOON + timedelta(seconds=1))

        assert ledger.acquire(delivery_of(late)) == Refused(Refusal.EXPIRED)
        assert (row_of(late).state, row_of(late).reason) == ("skipped", "expired")
        assert isinstance(ledger.acquire(delivery_of(jittered)), Acquired)

    def test_a_started_fire_does_not_expire(self, ledger):
        fire = make_fire(make_job(expires_after=timedelta(seconds=1)), attempt=1)

        assert acquired(ledger, delivery_of(fire)).attempt == 2

    @pytest.mark.parametrize(("attempt", "state"), [(0, "skipped"), (1, "dead")])
    def test_a_deleted_job_cancels_its_fires(self, ledger, attempt, state):
        fire = make_fire(make_job(), attempt=attempt, origin="manual:1")
        Job.objects.filter(pk=fire.job_id).update(deleted_at=NOON)

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.DELETED)
        row = row_of(fire)
        assert (row.state, row.reason) == (state, "cancelled")
        assert row.finished_at is not None
        letters = DeadLetter.objects.values_list("fire_id", "reason", "error")
        assert list(letters) == [(fire.id, "cancelled", "its job was deleted")] * attempt

    @pytest.mark.parametrize(("redriven_at", "runs"), [(NOON, True), (None, False)])
    def test_a_redriven_fire_runs_though_its_job_is_paused_until_it_dies_again(self, ledger, redriven_at, runs):
        fire = make_fire(make_job(), attempt=1, fence=3)
        self.paused(fire.job)
        letter = {"reason": "gave_up", "fingerprint": "", "died_at": NOON, "redriven_at": redriven_at}
        DeadLetter.objects.create(fire_id=fire.id, **letter)

        assert isinstance(ledger.acquire(delivery_of(fire)), Acquired) is runs

    def test_a_running_fire_is_its_holders_whatever_became_of_the_job(self, ledger):
        delivery = delivery_of(make_fire(make_job()))
        acquired(ledger, delivery)
        self.paused(Job.objects.get())

        assert isinstance(ledger.acquire(delivery), Acquired)


@pytest.mark.usefixtures("stopped_clock")
def test_a_kept_plan_decides_as_one_made_anew_whatever_the_job_and_the_fire_say(planning_ledger):
    fire = make_fire(make_job())
    keeping_ledger = keep_all_plans(PostgresLedger("default", lease=timedelta(seconds=30)))
    paused: list[dict[str, Any]] = [
        {"paused_at": None},
        {"paused_at": NOON},
        {"paused_at": NOON, "paused_until": NOON + timedelta(seconds=30)},
    ]
    expiring = [{"expires_after": after} for after in (None, timedelta(seconds=59), HOUR)]
    edited = [{"schedule_version": 1}] + [
        {"schedule_version": 2, "schedule_changed_at": NOON + by} for by in (-HOUR, timedelta(0), HOUR)
    ]
    fires = [{"origin": origin, "attempt": attempt} for origin in ("", "manual:1") for attempt in (0, 1)]
    as_made = Job.objects.values().get(), Fire.objects.values().get()

    def outcome(ledger: PostgresLedger) -> tuple[Any, ...]:
        Job.objects.update(**as_made[0] | job)
        Fire.objects.update(**as_made[1] | columns)
        verdict = ledger.acquire(delivery_of(fire))
        row = row_of(fire)
        return type(verdict), getattr(verdict, "reason", ""), row.state, row.reason, row.attempt, row.wake_at

    for one, two, three, columns in product(paused, expiring, edited, fires):
        job = one | two | three
        assert outcome(keeping_ledger) == outcome(planning_ledger), (job, columns)
