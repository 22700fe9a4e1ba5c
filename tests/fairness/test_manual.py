"""docs/fairness.md: its example runs, as it stands there, and it names every reason for which something may wait."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fairness.models import Tenant
from scheduling.conf import Fairness
from scheduling.core.why import Why
from scheduling.services.explain_tenants import terms_of

MANUAL = (Path(__file__).parents[2] / "docs" / "fairness.md").read_text()


@pytest.mark.django_db
def test_the_example_gives_a_tenant_its_weight_limits_and_quotas():
    (example,) = re.findall(r"^```python\n(.*?)^```$", MANUAL, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    acme = Tenant.objects.get(slug="acme")
    assert (acme.weight, acme.stagger, acme.daily_fires) == (3.0, timedelta(minutes=5), 100_000)
    terms = terms_of(acme)
    assert [key for key, _ in terms.bounds_of("bulk", "shop.tasks.export")] == [
        (acme.pk, "", ""),
        (acme.pk, "", "shop.tasks.export"),
    ]
    assert terms.is_limited


def test_every_reason_and_every_level_is_in_its_table():
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", MANUAL, re.MULTILINE))))
    assert {str(why) for why in Why if why not in (Why.RUNNING, Why.OVER)} <= named
    assert {str(level) for level in Fairness} <= named
