"""TLS for a service that has none: a certificate of 127.0.0.1, and a door before the service that speaks TLS."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import PATIENCE_S


def make_certificate(folder: Path) -> Path:
    """Key and certificate of 127.0.0.1, in one file; it vouches for itself. Skips the test without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, to make a certificate")
    path, key_path = folder / "both.pem", folder / "key.pem"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key_path)]
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run(["openssl", "req", "-x509", *key, *name, "-out", str(path)], check=True, capture_output=True)
    path.write_text(key_path.read_text() + path.read_text())
    return path


@contextmanager
def tls_before(host: str, port: int, certificate: Path, *, asks_for_one: bool = False) -> Iterator[int]:
    """The loopback port of a door that ends TLS; ``asks_for_one``: who comes must show the same certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if asks_for_one:
        context.load_verify_locations(certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service_reader, service_writer = await asyncio.open_connection(host, port)
        await asyncio.gather(_pass_on(reader, service_writer), _pass_on(service_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield int(server.sockets[0].getsockname()[1])
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)
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
