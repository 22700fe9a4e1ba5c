"""The publisher over TLS: a socket of another kind under the same loop."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scheduling.core.fire import Verdict
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.broker.outcomes import Outcomes, fire, fires, work
from tests.tls import make_certificate, tls_before


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls_url(certificate: Path, rabbitmq_url: str) -> Iterator[str]:
    """The broker's address behind a door that ends TLS."""
    parts = urlsplit(rabbitmq_url)
    with tls_before(parts.hostname or "127.0.0.1", parts.port or 5672, certificate) as port:
        yield f"amqps://{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}{parts.path}"


def test_batches_and_large_messages_are_confirmed_over_tls(
    tls_url: str, certificate: Path, rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes
) -> None:
    publisher = rabbitmq_publisher(tls_url, tls={"ca_certs": str(certificate), "cert_reqs": ssl.CERT_REQUIRED})
    publisher.start(outcomes.report)
    large = fire(work(args=f'["{"x" * 700_000}"]'))
    assert outcomes.publish(publisher, [*fires(1500), large, *fires(1500)]) == {Verdict.CONFIRMED: 3001}
    assert queues.size("acme") == 3001


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    tls_url: str, rabbitmq_publisher: MakeRabbitMQ, outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = rabbitmq_publisher(tls_url, tls={"cert_reqs": ssl.CERT_REQUIRED})
    publisher.start(outcomes.report)
    assert outcomes.publish(publisher, fires(2)) == {Verdict.UNSENT: 2}
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
