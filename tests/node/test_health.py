"""What a node says of its health while its threads are held, its claims fail, or its lease runs out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction

from scheduling import failpoints
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.failpoints import FailpointReached, Point
from scheduling.models import Job
from scheduling.node import health
from scheduling.node.health import Health, HealthServer
from scheduling.node.node import Node
from tests.conftest import Spawn
from tests.node.conftest import SHARDS, Running, Start
from tests.node.test_node import due_jobs, owns_all
from tests.processes import PATIENCE_S, eventually

NOWHERE = {"AMQP_URL": "", "CELERY_BROKER_URL": "amqp://127.0.0.1:1//", "REDIS_URL": "redis://127.0.0.1:1/0"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed sooner; a busy machine may be as slow as this all the same."""
    monkeypatch.setattr(health, "READY_S", 0.7)


def until_ready(running: Running, *, shards: int = SHARDS) -> None:
    eventually(lambda: running.node.health.ready().said == {"ready": True, "shards": shards})


def until_not_ready(running: Running, reason: str) -> dict[str, Any]:
    eventually(lambda: reason in running.node.health.ready().said.get("reason", ""))
    said = running.node.health.ready().said
    assert not said["ready"]
    return said


def test_a_node_is_ready_once_each_of_its_shards_was_looked_at_and_not_while_it_drains(start: Start) -> None:
    node = start("a", confirms=False)
    until_ready(node)
    assert owns_all("a")
    assert node.node.health.live().ok
    due_jobs(1)
    node.publisher.wait_for(1)
    node.stop()
    assert until_not_ready(node, "it is draining")["shards"] == SHARDS


def test_a_claim_that_does_not_return_silences_its_shards_until_it_does(start: Start) -> None:
    node = start("a")
    until_ready(node)
    returns = Event()
    with failpoints.armed(Point.CLAIM_BEFORE, returns.wait):  # the one thread of the store hangs
        due_jobs(1)
        said = until_not_ready(node, "no look at due rows of 64 shards has succeeded in the last 0.7 s")
        assert said["silent"] == list(range(SHARDS))
        assert node.node.health.live().ok
        returns.set()
    until_ready(node)


def test_a_claim_that_fails_each_time_silences_its_shard_alone(start: Start) -> None:
    node = start("a")
    until_ready(node)

    def fail() -> None:
        raise FailpointReached("here")

    with failpoints.armed(Point.CLAIM_BEFORE, fail):
        job = Job.objects.get(pk__in=due_jobs(1))
        eventually(lambda: node.node.health.ready().said.get("silent") == [job.shard_id])
    until_ready(node)


def test_shards_that_cannot_be_taken_over_are_missed(start: Start) -> None:
    may_take = Event()
    with failpoints.armed(Point.TAKE_OVER_BEFORE, may_take.wait):
        node = start("a")
        assert until_not_ready(node, "no look at due rows of 64 shards")["shards"] == SHARDS
        may_take.set()
    until_ready(node)


def test_a_node_whose_lease_cannot_be_renewed_is_not_ready(start: Start) -> None:
    node = start("a", lease_s=0.8)
    until_ready(node)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE scheduling_node IN EXCLUSIVE MODE")
        until_not_ready(node, "its lease ran out")
    until_ready(node)


def test_a_standby_is_ready_without_shards(start: Start) -> None:
    one_group = partial(PostgresCoordinator, groups=1)
    nodes = [start(name, kind=one_group) for name in "ab"]

    def shards_of_those_ready() -> list[int]:
        answers = [node.node.health.ready() for node in nodes]
        return sorted(answer.said["shards"] for answer in answers if answer.ok)

    eventually(lambda: shards_of_those_ready() == [0, SHARDS])


def test_a_poller_is_ready_while_its_polls_are_answered(start_poller: Start) -> None:
    node = start_poller("a")
    until_ready(node)
    returns = Event()
    with failpoints.armed(Point.CLAIM_BEFORE, returns.wait):
        until_not_ready(node, "no look at due rows of 64 shards has succeeded")
        returns.set()
    until_ready(node)


def test_a_loop_that_does_not_turn_is_neither_live_nor_ready(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LIVE_S", 1.2)
    node = start("a")
    until_ready(node)
    goes_on = Event()

    def hang() -> None:
        goes_on.wait()

    assert isinstance(node.node, Node)
    node.node._inbox.put(hang)
    until_not_ready(node, "the loop has not turned for")
    assert not node.node.health.live().ok
    goes_on.set()
    until_ready(node)
    assert node.node.health.live().ok


# -- over HTTP --------------------------------------------------------------------------------------------------


class Stub(Health):
    """Says what it is told to."""

    def __init__(self) -> None:
        self.is_ready = True

    def live(self) -> health.Answer:
        return health.Answer(True, {"live": True})

    def ready(self) -> health.Answer:
        return health.Answer(self.is_ready, {"ready": self.is_ready, "reason": "as told"})


@pytest.fixture
def served() -> Iterator[tuple[Stub, str]]:
    told = Stub()
    server = HealthServer("127.0.0.1:0", told)
    server.start()
    yield told, server.url
    server.stop()


def get(url: str, *, method: str = "GET") -> tuple[int, str]:
    try:
        with urlopen(Request(url, method=method), timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


def test_probes_get_a_status_and_one_line_of_json(served: tuple[Stub, str]) -> None:
    told, url = served
    assert get(f"{url}/live") == (200, '{"live": true}\n')
    assert get(f"{url}/ready?verbose") == (200, '{"ready": true, "reason": "as told"}\n')
    told.is_ready = False
    assert get(f"{url}/ready") == (503, '{"ready": false, "reason": "as told"}\n')
    assert get(f"{url}/ready", method="HEAD") == (503, "")
    assert get(f"{url}/nothing")[0] == 404


def test_an_address_that_is_taken_or_none_ends_the_command_in_a_sentence(served: tuple[Stub, str]) -> None:
    taken = served[1].removeprefix("http://")
    with pytest.raises(CommandError, match=f"^health '{taken}': cannot listen there: Address already in use$"):
        call_command("scheduler", "--health", taken)
    with pytest.raises(CommandError, match="^address '8081': is not HOST:PORT, such as 127.0.0.1:8081$"):
        call_command("scheduler", "--health", "8081")


@pytest.mark.django_db(transaction=True)
def test_the_lone_process_of_stop_1_says_where_its_health_is(spawn: Spawn) -> None:
    lone = spawn("manage.py", "scheduler", "--health", "127.0.0.1:0", FAIRBEAT_STOP="1", **NOWHERE)
    url = lone.wait_for_line("health is at http://").partition("health is at ")[2].split("/ready")[0]
    eventually(lambda: get(f"{url}/ready") == (200, '{"ready": true, "shards": 64}\n'))
    assert json.loads(get(f"{url}/live")[1]) == {"live": True}
