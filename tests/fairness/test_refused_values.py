"""What tenants and limits cannot be is refused in a sentence that names the field and the value."""

from __future__ import annotations

from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F

from fairness.models import Limit, Tenant

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"weight": 0}, "weight 0.0: a number from 0.001 to 10000"),
        ({"weight": -1.0}, "weight -1.0: a number from 0.001 to 10000"),
        ({"weight": nan}, "weight nan: a number from 0.001 to 10000"),
        ({"weight": "much"}, "weight 'much': “much” value must be a float."),
        ({"weight": None}, "weight None: This field cannot be null."),
        ({"transactional_weight": 1e5}, "transactional_weight 100000.0: a number from 0.001 to 10000, or empty"),
        ({"rate_per_s": 0}, "rate_per_s 0.0: a number from 1e-9 to 1e9, or empty"),
        ({"rate_per_s": inf}, "rate_per_s inf: a number from 1e-9 to 1e9, or empty"),
        ({"burst": 0}, "burst 0: at least 1"),
        ({"max_in_flight": -1}, "max_in_flight -1: Ensure this value is greater than or equal to 0."),
        ({"max_in_flight": inf}, "max_in_flight inf: cannot convert float infinity to integer"),
        ({"is_strict": True}, "is_strict True: needs a number of fires that may be in flight"),
        ({"max_jobs": 2**31}, "max_jobs 2147483648: Ensure this value is less than or equal to 2147483647."),
        ({"daily_fires": nan}, "daily_fires nan: “nan” value must be an integer."),
        ({"stagger": timedelta(days=2)}, "stagger datetime.timedelta(days=2): from 0 to a day, or empty"),
        ({"history_days": 8}, "history_days 8: Value 8 is not a valid choice."),
        (
            {"slug": "Acme Inc"},
            "slug 'Acme Inc': lower-case letters, digits, '.', '_' and '-', a letter or digit first",
        ),
    ],
)
def test_a_tenant_that_cannot_be_is_refused_by_every_way_that_saves_one(values: dict[str, Any], said: str):
    wanted = {"slug": "acme"} | values
    for save in (lambda: Tenant.objects.create(**wanted), lambda: Tenant.objects.bulk_create([Tenant(**wanted)])):
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            save()
        assert str(refused.value) == said
    assert not Tenant.objects.exclude(slug="default").exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rate_per_s": 5}, "task '': lane, task: name one of them; a limit of the whole tenant is its own field"),
        ({"task": "send"}, "rate_per_s None: rate, max in flight: give one of them, or delete the limit"),
        ({"lane": "bluk", "rate_per_s": 5}, "lane 'bluk': Value 'bluk' is not a valid choice."),
    ],
)
def test_a_limit_that_cannot_be_is_refused(values: dict[str, Any], said: str):
    acme = Tenant.objects.create(slug="acme")
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        Limit.objects.create(tenant=acme, **values)
    assert str(refused.value) == said


def test_a_check_by_fields_finds_all_that_is_wrong():
    with pytest.raises(ValidationError) as refused:
        Tenant(slug="acme", weight=nan, burst=0, max_jobs=-1).full_clean()
    assert set(refused.value.message_dict) == {"weight", "burst", "max_jobs"}


def test_what_the_database_is_to_compute_and_what_was_not_read_is_left_to_it():
    Tenant.objects.create(slug="acme", weight="2", max_jobs=10, max_in_flight=1, is_strict=True)
    acme = Tenant.objects.defer("max_in_flight", "weight").get(slug="acme")
    acme.max_jobs = F("max_jobs") + 5
    acme.save()
    acme.refresh_from_db()
    assert (acme.max_jobs, acme.weight, acme.is_strict) == (15, 2.0, True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"weight": 0}, "weight: a number from 0.001 to 10000"),
        ({"weight": F("weight") - 1}, "weight: a number from 0.001 to 10000"),
        ({"rate_per_s": nan}, "rate: a number from 1e-9 to 1e9, or empty"),
        ({"is_strict": True}, "strict cap: needs a number of fires that may be in flight"),
        ({"max_jobs": -1}, "max_jobs -1: Ensure this value is greater than or equal to 0."),
        ({"history_days": 8}, "history_days 8: Value 8 is not a valid choice."),
        (
            {"slug": "Acme Inc"},
            "slug 'Acme Inc': lower-case letters, digits, '.', '_' and '-', a letter or digit first",
        ),
    ],
)
def test_an_update_of_many_is_refused_in_a_sentence_too(values: dict[str, Any], said: str):
    with pytest.raises(ValueError) as refused, transaction.atomic():  # noqa: PT011
        Tenant.objects.update(**values)
    assert str(refused.value) == said


def test_so_are_rows_that_are_written_together_and_the_limits_of_a_tenant():
    acme = Tenant.objects.create(slug="acme")
    Limit.objects.create(tenant=acme, task="send", rate_per_s=5)
    acme.weight = 1e9
    with pytest.raises(IntegrityError, match="^weight: a number from"), transaction.atomic():
        Tenant.objects.bulk_update([acme], ["weight"])
    with pytest.raises(IntegrityError, match="^rate, max in flight: give one of them"), transaction.atomic():
        acme.limits.update(rate_per_s=None)


def test_what_django_itself_refuses_stays_as_it_is():
    with pytest.raises(FieldDoesNotExist):
        Tenant.objects.update(wieght=2)  # type: ignore[misc]
    Tenant.objects.create(slug="acme")
    with pytest.raises(IntegrityError, match="already exists"), transaction.atomic():
        Tenant.objects.filter(slug="acme").update(slug="default")


def test_an_update_that_can_be_is_made():
    assert Tenant.objects.update(weight=2, rate_per_s=None, stagger=timedelta(0)) == 1
    assert Tenant.objects.get().weight == 2.0
