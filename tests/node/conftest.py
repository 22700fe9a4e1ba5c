from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from fairness import limiting
from scheduling.broker.port import QueueWatch
from scheduling.conf import scheduling_settings
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.core.errors import FairbeatError
from scheduling.core.turn import FairLimits
from scheduling.node.node import Node
from scheduling.node.poller import Poller
from scheduling.node.share_keeper import LiveNodes
from scheduling.node.share_threads import Shares
from scheduling.store import listener
from scheduling.store.connection import NODE_PREFIX, connector
from scheduling.store.polling import PollingStore
from scheduling.store.postgres import PostgresStore
from tests import committed
from tests.engine_desk import LIMITS
from tests.node.publisher import WatchedPublisher
from tests.processes import PATIENCE_S, eventually

committed_db = committed.committed_db
test_database = committed.test_database

SHARDS = scheduling_settings(settings).SHARDS
GRACE = timedelta(seconds=5)


class Running:
    """A node in a thread of its own."""

    def __init__(self, node: Node | Poller, publisher: WatchedPublisher) -> None:
        self.node, self.publisher = node, publisher
        self.problem: FairbeatError | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.node.run()
        except FairbeatError as problem:
            self.problem = problem

    def stop(self) -> None:
        """Ask it to end; `ended` waits for that."""
        self.node.stop()

    def ended(self) -> FairbeatError | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "it goes on"
        return self.problem


Start = Callable[..., Running]


@pytest.fixture
def start(committed_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts nodes by name, of stop 3 unless `kind` is another; their publishers confirm, unless told not to."""
    monkeypatch.setattr(listener, "ASK_S", 0.05)
    running: list[Running] = []

    def started(
        name: str,
        *,
        kind: type = PostgresCoordinator,
        confirms: bool = True,
        confirm_after_s: float = 0.0,
        lease_s: float = 5.0,
        renew_s: float = 0.2,
        alone: bool = False,
        queues: QueueWatch | None = None,
        fairness: FairLimits | None = None,
        **limits: Any,
    ) -> Running:
        connect = connector(connection.get_connection_params(), name=name)
        publisher = WatchedPublisher(confirms=confirms, after_s=confirm_after_s)
        coordinator = kind(connect, node=name, region="", shards=SHARDS, lease_s=lease_s)
        node = Node(
            name,
            store=PostgresStore(connect, grace=GRACE),
            publisher=publisher,
            coordinator=coordinator,
            connect=connect,
            limits=replace(LIMITS, fairness=fairness, **limits),
            renew_s=renew_s,
            alone=alone,
            queues=queues,
            shares=None if fairness is None else _shares(name, fairness),
        )
        running.append(Running(node, publisher))
        return running[-1]

    yield started
    _end(running)


def _shares(name: str, fairness: FairLimits) -> Shares:
    """Without Redis."""
    live = LiveNodes(name)
    common: dict[str, Any] = {"prefix": "tests", "node": name, "nodes": live}
    return Shares(
        limiter=limiting.limiter("", **common),
        exchange=limiting.exchange("", **common) if fairness.bounds_lanes else None,
        live=live,
    )


@pytest.fixture
def start_poller(committed_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts nodes of stop 2."""
    monkeypatch.setattr(listener, "ASK_S", 0.05)
    running: list[Running] = []

    def started(
        name: str, *, confirms: bool = True, confirm_s: float = 30.0, patience_s: float = 60.0, **given: Any
    ) -> Running:
        connect = connector(connection.get_connection_params(), name=name)
        publisher = WatchedPublisher(confirms=confirms)
        node = Poller(
            name,
            store=PollingStore(
                connect, shards=SHARDS, grace=GRACE, confirm_s=confirm_s, patience=timedelta(seconds=patience_s)
            ),
            publisher=publisher,
            coordinator=PostgresCoordinator(connect, node=name, region="", shards=SHARDS, lease_s=5.0),
            connect=connect,
            renew_s=0.2,
            confirm_s=confirm_s,
            **({"tick_s": 0.1, "batch": 100, "backlog": 100} | given),
        )
        running.append(Running(node, publisher))
        return running[-1]

    yield started
    _end(running)


def _end(running: list[Running]) -> None:
    for node in running:
        node.stop()
        node.publisher.confirm_all()
    for node in running:
        node.ended()
    eventually(lambda: not _sessions())


def _sessions() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND starts_with(application_name, %s)",
            [NODE_PREFIX],
        )
        return int(cursor.fetchone()[0])
