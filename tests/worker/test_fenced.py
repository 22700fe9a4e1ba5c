"""Rows of one's own that remember which run wrote them last, and refuse an older one."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, models, transaction

from scheduling import FencedModel, FencedQuerySet, InvalidField, LeaseLost, NoCurrentJob, StaleWrite, current_job
from scheduling.models import Fire, JobRun
from tests.fires import NOON

pytestmark = pytest.mark.django_db


class FencedAccount(FencedModel):
    owner = models.CharField(max_length=20)
    balance = models.IntegerField(default=0)

    class Meta:
        app_label = "tests"
        db_table = "test_fenced_account"


@pytest.fixture(autouse=True)
def _table(db: None) -> None:
    with connection.schema_editor(atomic=False) as editor, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS test_fenced_account")
        editor.create_model(FencedAccount)


def run(*, hours: int = 0, fence: int = 1) -> Any:
    """As much of a context as a fenced write looks at."""
    return SimpleNamespace(scheduled_for=NOON + timedelta(hours=hours), fence=fence, fire_id="f")


def objects() -> FencedQuerySet[FencedAccount]:
    return FencedAccount.objects.all()


@pytest.fixture
def account() -> FencedAccount:
    return FencedAccount.objects.create(owner="ada")


def written(account: FencedAccount) -> tuple[int, Any, int | None]:
    account.refresh_from_db()
    return account.balance, account.fenced_for, account.fenced_by


def test_a_run_writes_a_row_and_its_token_in_one_statement(account, django_assert_num_queries):
    assert objects().fenced(run()).filter(pk=account.pk).update(balance=models.F("balance") + 5) == 1
    assert written(account) == (5, NOON, 1)


@pytest.mark.parametrize(
    "later",
    [run(), run(fence=2), run(hours=1), run(hours=1, fence=1)],
    ids=["the same run", "a later attempt", "a later occurrence", "a later one with a lower fence"],
)
def test_whoever_is_not_older_may_write(account, later):
    objects().fenced(run()).update(balance=1)

    assert objects().fenced(later).update(balance=2) == 1
    assert written(account) == (2, later.scheduled_for, later.fence)


@pytest.mark.parametrize("older", [run(fence=2), run(hours=-1, fence=9)], ids=["a lost attempt", "an older occurrence"])
def test_whoever_is_older_is_told_so_and_writes_nothing(account, older):
    objects().fenced(run(fence=3)).update(balance=1)

    with pytest.raises(StaleWrite, match=r"^tests\.FencedAccount was written by the run of 2026-03-02T12") as refused:
        objects().fenced(older).filter(pk=account.pk).update(balance=2)
    assert isinstance(refused.value, LeaseLost)
    assert written(account) == (1, NOON, 3)


def test_one_row_that_is_refused_takes_the_others_with_it(account):
    other = FencedAccount.objects.create(owner="bob")
    objects().fenced(run(hours=1)).filter(pk=other.pk).update(balance=1)

    with pytest.raises(StaleWrite):
        objects().fenced(run()).update(balance=2)
    assert written(account) == (0, None, None)


def test_no_row_is_no_refusal(account):
    assert objects().fenced(run()).filter(owner="nobody").update(balance=1) == 0


def test_filters_keep_the_run_in_whatever_order(account):
    objects().filter(owner="ada").fenced(run()).exclude(balance=9).order_by("pk").update(balance=1)
    assert written(account) == (1, NOON, 1)


def test_without_a_run_it_is_a_queryset_as_any_other(account):
    objects().fenced(run()).update(balance=1)
    objects().update(balance=2)
    assert written(account) == (2, NOON, 1)


def test_a_row_that_a_run_makes_is_its_own():
    made = objects().fenced(run(fence=4)).create(owner="eve")
    assert written(made) == (0, NOON, 4)
    (other,) = objects().fenced(run(fence=5)).bulk_create([FencedAccount(owner="mallory")])
    assert written(other) == (0, NOON, 5)
    with pytest.raises(StaleWrite):
        objects().fenced(run()).filter(owner="eve").update(balance=1)


def test_bulk_update_is_fenced_too(account):
    objects().fenced(run(hours=1)).update(balance=1)
    account.balance = 7
    with pytest.raises(StaleWrite), transaction.atomic():
        objects().fenced(run()).bulk_update([account], ["balance"])
    assert objects().fenced(run(hours=2)).bulk_update([account], ["balance"]) == 1
    assert written(account) == (7, NOON + timedelta(hours=2), 1)


def test_an_older_run_deletes_nothing(account):
    objects().fenced(run(hours=1)).update(balance=1)
    with pytest.raises(StaleWrite):
        objects().fenced(run()).delete()
    assert objects().count() == 1
    assert objects().fenced(run(hours=1)).delete()[0] == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda rows: rows.update_or_create(owner="ada", defaults={"balance": 1}),
        lambda rows: rows.bulk_create(
            [FencedAccount(pk=1)], update_conflicts=True, unique_fields=["id"], update_fields=["balance"]
        ),
        lambda rows: rows.update(fenced_by=7),
        lambda rows: rows.create(owner="ada", fenced_for=NOON),
    ],
)
def test_what_could_go_past_the_fence_is_refused(account, write):
    with pytest.raises(InvalidField):
        write(objects().fenced(run()))
    assert written(account) == (0, None, None)


def test_it_is_the_current_run_where_none_is_named(define, deliver, fire_of, account):
    with pytest.raises(NoCurrentJob):
        objects().fenced()

    deliver(fire_of(define(lambda: objects().fenced().update(balance=3)), fence=5))
    assert written(account) == (3, NOON, 5)


def test_a_run_that_was_overtaken_ends_as_such_and_is_not_tried_again(define, deliver, fire_of, account):
    objects().fenced(run(hours=1)).update(balance=1)

    told = deliver(fire_of(define(lambda: FencedAccount.objects.fenced(current_job()).update(balance=2))))

    assert isinstance(told.value, StaleWrite)
    assert (Fire.objects.get().state, Fire.objects.get().reason) == ("dead", "gave_up")
    assert JobRun.objects.get().error.startswith("scheduling.worker.errors.StaleWrite: tests.FencedAccount")


def test_it_may_be_part_of_a_commit(define, deliver, fire_of, account):
    def task():
        with current_job().commit():
            objects().fenced().update(balance=9)

    assert deliver(fire_of(define(task))).state == "SUCCESS"
    assert written(account) == (9, NOON, 1)
