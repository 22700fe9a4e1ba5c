"""The pages for probes of the web: they answer without a login, and say in a line of JSON what is wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from scheduling.models import Node, Shard


def make_node(name: str, *, lease_s: float) -> Node:
    now = timezone.now()
    return Node.objects.create(id=name, started_at=now, lease_until=now + timedelta(seconds=lease_s))


def ready(client: Client) -> tuple[int, dict[str, Any]]:
    answer = client.get("/health/ready")
    assert answer.content.endswith(b"}\n")
    assert answer["Content-Type"] == "application/json"
    assert "no-store" in answer["Cache-Control"]
    return answer.status_code, answer.json()


def test_the_process_is_live_whatever_the_database_does(client: Client) -> None:
    answer = client.get("/health/live")
    assert (answer.status_code, answer.content) == (200, b'{"live": true}\n')
    assert client.post("/health/live").status_code == 405


@pytest.mark.django_db
def test_it_is_ready_when_every_shard_has_a_living_owner(client: Client) -> None:
    assert ready(client) == (
        503, {"ready": False, "nodes": 0, "reason": "no node is alive", "ownerless": list(range(64))}
    )  # fmt: skip
    living, dead = make_node("living", lease_s=60), make_node("dead", lease_s=-1)
    Shard.objects.update(owner=living)
    Shard.objects.filter(id=3).update(owner=dead)
    Shard.objects.filter(id=5).update(owner=None)
    assert ready(client) == (
        503, {"ready": False, "nodes": 1, "reason": "2 shards have no living owner", "ownerless": [3, 5]}
    )  # fmt: skip
    Shard.objects.update(owner=living)
    assert ready(client) == (200, {"ready": True, "nodes": 1})


@pytest.mark.django_db
@pytest.mark.parametrize("stop", [1, 2])
def test_at_stops_1_and_2_a_living_node_is_enough(stop: int, client: Client, settings: LazySettings) -> None:
    settings.SCHEDULING = {"STOP": stop}
    make_node("dead", lease_s=-1)
    assert ready(client)[0] == 503
    make_node("living", lease_s=60)
    assert ready(client) == (200, {"ready": True, "nodes": 1})


def test_a_database_that_does_not_answer_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr("scheduling.health.readiness", refuse)
    assert ready(client) == (503, {"ready": False, "reason": "the database does not answer: connection refused"})
