"""A run is asked to stop, and hears of it: with a heartbeat, or at once by a notice."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from scheduling import Cancel, LeaseLost, current_job
from scheduling.models import DeadLetter, Fire, JobRun
from scheduling.worker import heartbeat
from scheduling.worker.process import worker_process
from tests.processes import eventually

LONG_S = 12  # a lease whose heartbeat, each third, comes too late; the thread of one test is soon gone


def ask_to_stop(*, with_notice: bool) -> None:
    Fire.objects.update(cancel_reason="no longer wanted")
    if with_notice:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify('fairbeat_cancel', id::text) FROM scheduling_fire")


@pytest.mark.django_db
class TestCheck:
    def test_a_task_that_goes_on_is_told_nothing(self, define, deliver, fire_of):
        def task():
            context = current_job()
            context.check()
            return context.cancelled, context.cancel_reason

        assert deliver(fire_of(define(task))).value == (False, "")

    def test_one_that_is_to_stop_may_tidy_up_and_stop_when_it_likes(self, define, deliver, fire_of):
        tidied = []

        def task():
            context = current_job()
            context.mark_cancelled("no longer wanted")
            try:
                context.check()
            except Cancel:
                tidied.append(context.cancel_reason)
                raise

        deliver(fire_of(define(task)))
        assert tidied == ["no longer wanted"]
        assert Fire.objects.get().reason == "cancelled"

    def test_a_lost_lease_is_a_reason_too(self, define, deliver, fire_of):
        def task():
            current_job().mark_lost()
            with pytest.raises(LeaseLost):
                current_job().check()

        assert deliver(fire_of(define(task))).state == "SUCCESS"

    def test_after_commit_there_is_nothing_left_to_stop(self, define, deliver, fire_of):
        def task():
            with current_job().commit():
                pass
            current_job().mark_cancelled("too late")
            current_job().check()
            return "done"

        assert deliver(fire_of(define(task))).value == "done"


@pytest.mark.usefixtures("committed_db")
class TestItHears:
    @pytest.fixture
    def lease_s(self, settings: Any) -> Any:
        def set_to(seconds: float) -> None:
            settings.SCHEDULING = settings.SCHEDULING | {"FIRE_LEASE_S": seconds}

        return set_to

    def waits_for_it(self, *, with_notice: bool, after: Any = lambda: None):
        def task():
            after()
            ask_to_stop(with_notice=with_notice)
            eventually(lambda: current_job().cancelled, timeout_s=LONG_S / 4)
            current_job().check()

        return task

    def test_with_the_next_heartbeat(self, define, deliver, fire_of, lease_s):
        lease_s(0.3)

        deliver(fire_of(define(self.waits_for_it(with_notice=False))))

        assert DeadLetter.objects.get().error == "no longer wanted"
        assert JobRun.objects.get().state == "cancelled"

    def test_at_once_by_a_notice(self, define, deliver, fire_of, lease_s, monkeypatch):
        lease_s(LONG_S)
        monkeypatch.setattr(heartbeat, "SLICE_S", 0.02)

        def listens():
            eventually(lambda: worker_process().heartbeat._notices._session)  # type: ignore[union-attr]

        deliver(fire_of(define(self.waits_for_it(with_notice=True, after=listens))))
        assert JobRun.objects.get().state == "cancelled"

    def test_what_was_asked_before_it_listened(self, define, deliver, fire_of, lease_s, monkeypatch):
        lease_s(LONG_S)
        monkeypatch.setattr(heartbeat, "SLICE_S", 0.02)

        deliver(fire_of(define(self.waits_for_it(with_notice=False))))
        assert JobRun.objects.get().state == "cancelled"

    def test_a_short_run_costs_no_connection(self, define, deliver, fire_of, lease_s):
        lease_s(3600)
        deliver(fire_of(define(lambda: None)))

        assert worker_process().heartbeat._notices._session is None  # type: ignore[union-attr]
