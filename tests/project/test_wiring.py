"""What the settings build."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from project.celery import app
from project.wiring import build_collector, build_coordinator, build_poll_limits, build_store
from scheduling.conf import scheduling_settings
from scheduling.coordination.etcd import EtcdCoordinator
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.coordination.single import SingleNode
from scheduling.node.collector import Collector
from scheduling.store.bucketed import BucketedStore
from scheduling.store.connection import connector
from scheduling.store.postgres import PostgresStore


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"STOP": 1}, PostgresStore),
        ({"STOP": 3}, PostgresStore),
        ({"STOP": 3, "STORE": "bucketed"}, BucketedStore),
        ({"STOP": 4}, BucketedStore),
        ({"STOP": 4, "STORE": "indexed"}, PostgresStore),
    ],
    ids=str,
)
def test_the_store_is_the_one_of_the_settings(given: dict[str, Any], kind: type) -> None:
    settings = scheduling_settings(SimpleNamespace(SCHEDULING=given))
    assert type(build_store(settings, connector(connection.get_connection_params(), name="wiring"))) is kind


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"STOP": 1}, SingleNode),
        ({"STOP": 3}, PostgresCoordinator),
        ({"STOP": 4}, PostgresCoordinator),
        ({"STOP": 3, "COORDINATOR": "etcd"}, EtcdCoordinator),
        ({"STOP": 4, "COORDINATOR": "etcd", "ETCD_URLS": "http://a:2379,http://b:2379"}, EtcdCoordinator),
    ],
    ids=str,
)
def test_the_coordinator_is_the_one_of_the_settings(given: dict[str, Any], kind: type) -> None:
    settings = scheduling_settings(SimpleNamespace(SCHEDULING=given))
    connect = connector(connection.get_connection_params(), name="wiring")
    assert type(build_coordinator(settings, connect, node="a", region="")) is kind


@pytest.mark.parametrize(("url", "kind"), [("amqp://127.0.0.1:1//", Collector), ("redis://127.0.0.1:1/0", type(None))])
def test_dead_letters_are_collected_where_the_broker_is_a_rabbitmq(
    url: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.conf, "broker_url", url)
    assert type(build_collector(connector(connection.get_connection_params(), name="wiring"))) is kind


@pytest.mark.parametrize(("fairness", "has_limits"), [(None, True), ("limits", True), ("queues", True), ("off", False)])
def test_stop_2_keeps_limits_unless_fairness_is_off(fairness: str | None, has_limits: bool) -> None:
    given = {"STOP": 2, "FAIRNESS": fairness}
    settings = scheduling_settings(SimpleNamespace(SCHEDULING=given))
    connect = connector(connection.get_connection_params(), name="wiring")
    assert (build_poll_limits(settings, connect, node="a") is not None) is has_limits
