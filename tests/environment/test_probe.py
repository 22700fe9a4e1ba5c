"""One look at a service: it answers, or the error is one sentence that says which, and why not."""

from __future__ import annotations

import pytest

from project.environment import probe
from project.environment.process import free_port
from scheduling.core.errors import InvalidField, ServiceUnreachable


@pytest.mark.parametrize(
    ("ask", "url"),
    [
        (probe.postgres, "postgresql://me:s3cret@127.0.0.1:{port}/app"),
        (probe.redis_, "redis://:s3cret@127.0.0.1:{port}/0"),
        (probe.broker, "amqp://me:s3cret@127.0.0.1:{port}//"),
        (probe.broker, "redis://:s3cret@127.0.0.1:{port}/0"),
        (probe.etcd, "http://127.0.0.1:{port},http://127.0.0.1:{port}"),
    ],
)
def test_a_closed_port_is_told_in_one_line_without_the_password(ask: probe.Probe, url: str):
    with pytest.raises(ServiceUnreachable) as caught:
        ask("SOME_URL", url.format(port=free_port()))
    message = str(caught.value)
    assert message.startswith("SOME_URL ")
    assert " does not answer: " in message
    assert "refused" in message.lower()
    assert "s3cret" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("ask", "url"),
    [
        (probe.postgres, "sqlite:///file.db"),
        (probe.postgres, "postgresql://h/db?no_such_option=1"),
        (probe.redis_, "http://cache"),
        (probe.broker, "carrier-pigeon://loft"),
        (probe.etcd, "etcd:2379"),
        (probe.etcd, "http://etcd:port"),
    ],
)
def test_a_url_that_no_driver_takes_is_refused(ask: probe.Probe, url: str):
    with pytest.raises(InvalidField, match=r"^SOME_URL '"):
        ask("SOME_URL", url)


def test_a_wrong_account_of_rabbitmq_is_an_answer_of_its_own(rabbitmq_url: str):
    probe.broker("AMQP_URL", rabbitmq_url)
    with pytest.raises(ServiceUnreachable, match="ACCESS_REFUSED"):
        probe.broker("AMQP_URL", rabbitmq_url.replace("guest:guest", "guest:wrong"))


def test_redis_answers(redis_url: str):
    probe.redis_("REDIS_URL", redis_url)
    probe.broker("CELERY_BROKER_URL", redis_url)


def test_etcd_answers(etcd_url: str):
    probe.etcd("ETCD_URL", etcd_url)
