"""Holds are forgotten by the start of a node that holds nobody, and of no other."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairness.models import Tenant
from scheduling.conf import SchedulingSettings, scheduling_settings
from scheduling.models import Hold, JobClock
from scheduling.services import run_node

ELSE_S = 30.0


def configured(**settings: Any) -> SchedulingSettings:
    return scheduling_settings(SimpleNamespace(SCHEDULING=settings))


def held() -> None:
    tenant, _ = Tenant.objects.get_or_create(slug="default")
    Hold.objects.create(shard_id=3, tenant=tenant, since=JobClock.objects.now())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("settings", "stays"),
    [
        ({"STOP": 1}, False),
        ({"STOP": 1, "FAIRNESS": "limits"}, True),
        ({"STOP": 2}, False),
        ({"STOP": 2, "FAIRNESS": "off"}, False),
        ({"STOP": 3, "FAIRNESS": "limits"}, True),
        ({"STOP": 4}, True),
    ],
)
def test_only_a_node_that_claims_all_that_is_due_forgets_holds(settings: dict[str, Any], stays: bool):
    held()
    run_node.forget_holds(configured(**settings))
    assert Hold.objects.exists() is stays


@pytest.mark.django_db(transaction=True)
def test_they_are_forgotten_at_its_start(monkeypatch: pytest.MonkeyPatch):
    held()
    came_there = Event()
    monkeypatch.setattr(run_node, "replan_if_changed", came_there.set)
    run_node.run_beside(configured(STOP=2), cast("run_node.Runnable", None))  # which says nothing of its health
    assert came_there.wait(ELSE_S)
    assert not Hold.objects.exists()
