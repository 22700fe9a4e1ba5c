"""The publisher over TLS: a socket of another kind under the same loop."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scheduling.core.fire import Verdict
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.broker.outcomes import Outcomes, fire, fires, work


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of 127.0.0.1, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(path) + ".key"]
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run(["openssl", "req", "-x509", *key, *name, "-out", str(path)], check=True, capture_output=True)
    path.write_text(Path(str(path) + ".key").read_text() + path.read_text())
    return path


@pytest.fixture
def tls_url(certificate: Path, rabbitmq_url: str) -> Iterator[str]:
    """The broker's address behind a proxy that ends TLS."""
    parts = urlsplit(rabbitmq_url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(parts.hostname, parts.port or 5672)
        await asyncio.gather(_pass_on(reader, broker_writer), _pass_on(broker_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"amqps://{parts.netloc.rpartition('@')[0]}@127.0.0.1:{server.sockets[0].getsockname()[1]}{parts.path}"
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.run_until_complete(_end(asyncio.all_tasks(loop)))
    loop.close()


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


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
