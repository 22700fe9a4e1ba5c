"""Which services are used as they are, which are embedded, and what is refused."""

from __future__ import annotations

import pytest

from project.environment.plan import LOCAL_RABBITMQ, NO_EMBEDDED_ETCD, Probes, plan
from scheduling.core.errors import InvalidField, ServiceUnreachable


class Machine:
    """A machine on which the services at some URLs answer; remembers who was asked."""

    def __init__(self, *answering: str) -> None:
        self.answering = answering
        self.asked: list[str] = []
        self.probes = Probes(postgres=self._probe, redis=self._probe, broker=self._probe, etcd=self._probe)

    def _probe(self, field: str, url: str) -> None:
        self.asked.append(url)
        if url not in self.answering:
            raise ServiceUnreachable(f"{field} {url} does not answer: connection refused")


def test_with_nothing_configured_and_nothing_running_everything_is_embedded():
    found = plan({}, probes=Machine().probes)
    assert (found.database_url, found.redis_url, found.broker_url) == (None, None, None)


def test_a_rabbitmq_that_answers_on_localhost_is_the_broker():
    assert plan({}, probes=Machine(LOCAL_RABBITMQ).probes).broker_url == LOCAL_RABBITMQ


def test_embedded_leaves_a_rabbitmq_on_localhost_alone():
    machine = Machine(LOCAL_RABBITMQ)
    found = plan({"EMBEDDED": "1"}, probes=machine.probes)
    assert found.broker_url is None
    assert found.no_rabbitmq == "EMBEDDED=1 asks for the embedded broker"
    assert machine.asked == []


def test_what_an_outer_run_has_looked_for_in_vain_is_not_looked_for_again():
    machine = Machine(LOCAL_RABBITMQ)
    assert plan({"RABBITMQ_MISSING": "no Docker engine answers"}, probes=machine.probes).broker_url is None
    assert machine.asked == []


def test_an_etcd_is_used_where_it_is_configured_and_sought_where_it_is_not():
    found = plan({}, probes=Machine("http://127.0.0.1:2379").probes)
    assert (found.etcd_url, found.no_etcd) == (None, "")
    found = plan({"ETCD_MISSING": "no Docker answers"}, probes=Machine().probes)
    assert (found.etcd_url, found.no_etcd) == (None, "no Docker answers")
    found = plan({"ETCD_URL": "http://e:1", "ETCD_MISSING": "not sought"}, probes=Machine("http://e:1").probes)
    assert (found.etcd_url, found.no_etcd) == ("http://e:1", "")
    found = plan({"EMBEDDED": "1", "ETCD_URL": "http://e:1"}, probes=Machine().probes)
    assert (found.etcd_url, found.no_etcd) == (None, NO_EMBEDDED_ETCD)


def test_configured_services_are_used_and_localhost_is_not_asked():
    environ = {
        "DATABASE_URL": "postgresql://db/app",
        "REDIS_URL": "redis://cache/0",
        "AMQP_URL": "amqp://mq//",
        "ETCD_URL": "http://etcd:2379",
    }
    machine = Machine(*environ.values())
    found = plan(environ, probes=machine.probes)
    assert (found.database_url, found.redis_url, found.broker_url, found.etcd_url) == tuple(environ.values())
    assert machine.asked == list(environ.values())


def test_an_empty_variable_counts_as_not_set():
    empty = dict.fromkeys(("DATABASE_URL", "REDIS_URL", "AMQP_URL", "CELERY_BROKER_URL", "ETCD_URL", "EMBEDDED"), "")
    assert plan(empty, probes=Machine().probes) == plan({}, probes=Machine().probes)


def test_any_broker_of_kombu_can_be_configured():
    found = plan({"CELERY_BROKER_URL": "sqs://"}, probes=Machine("sqs://").probes)
    assert found.broker_url == "sqs://"


@pytest.mark.parametrize("field", ["DATABASE_URL", "REDIS_URL", "AMQP_URL", "CELERY_BROKER_URL", "ETCD_URL"])
def test_a_configured_service_that_does_not_answer_is_an_error_that_names_it(field: str):
    with pytest.raises(ServiceUnreachable, match=f"^{field} amqp://gone does not answer"):
        plan({field: "amqp://gone"}, probes=Machine(LOCAL_RABBITMQ).probes)


@pytest.mark.parametrize("field", ["DATABASE_URL", "REDIS_URL", "AMQP_URL", "CELERY_BROKER_URL"])
def test_embedded_wins_over_a_configured_service_and_does_not_even_ask_it(field: str):
    machine = Machine()
    found = plan({"EMBEDDED": "1", field: "x://u:secret@h"}, probes=machine.probes)
    assert (found.database_url, found.redis_url, found.broker_url) == (None, None, None)


def test_embedded_takes_only_zero_and_one():
    with pytest.raises(InvalidField, match="EMBEDDED 'yes'"):
        plan({"EMBEDDED": "yes"}, probes=Machine().probes)
    assert plan({"EMBEDDED": "0"}, probes=Machine(LOCAL_RABBITMQ).probes).broker_url == LOCAL_RABBITMQ


def test_amqp_url_takes_no_other_kind_of_broker():
    with pytest.raises(InvalidField, match="AMQP_URL 'redis://cache': it names a RabbitMQ"):
        plan({"AMQP_URL": "redis://cache"}, probes=Machine("redis://cache").probes)


def test_two_different_brokers_contradict_each_other():
    environ = {"AMQP_URL": "amqp://a//", "CELERY_BROKER_URL": "amqp://b//"}
    with pytest.raises(InvalidField, match="CELERY_BROKER_URL 'amqp://b//': AMQP_URL names another"):
        plan(environ, probes=Machine(*environ.values()).probes)
    same = dict.fromkeys(environ, "amqp://a//")
    assert plan(same, probes=Machine("amqp://a//").probes).broker_url == "amqp://a//"
