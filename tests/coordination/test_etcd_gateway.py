"""Calls to a cluster of which some members answer, some do not, and some want to know who asks."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from project.environment.etcd import Member
from project.environment.process import free_port
from scheduling.coordination.etcd_client import EtcdClient
from scheduling.coordination.etcd_gateway import EtcdAddress, EtcdGateway, EtcdRefused
from scheduling.core.errors import InvalidField
from scheduling.store.port import StoreUnavailable
from tests.coordination.etcd_world import client
from tests.processes import eventually
from tests.proxy import Proxy
from tests.tls import make_certificate, tls_before

PATIENCE_S = 0.5


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A member that takes every connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def closed_url() -> str:
    return f"http://127.0.0.1:{free_port()}"


def with_account(url: str, user: str = "") -> EtcdClient:
    return EtcdClient(EtcdGateway(EtcdAddress(urls=(url,), user=user), timeout_s=5))


# -- members --------------------------------------------------------------------------------------------------------


def test_a_call_goes_on_to_the_next_member_and_the_one_that_answered_is_asked_first_from_then_on(
    etcd_url: str, closed_url: str, silent_url: str, unique: str
) -> None:
    etcd = client(f"{closed_url},{silent_url},{etcd_url}", timeout_s=PATIENCE_S)
    before = time.monotonic()
    assert etcd.read(unique) == []
    assert time.monotonic() - before >= PATIENCE_S
    before = time.monotonic()
    assert etcd.read(unique) == []
    assert time.monotonic() - before < PATIENCE_S


def test_where_no_member_answers_each_is_named_with_its_reason_in_bounded_time(
    closed_url: str, silent_url: str, unique: str
) -> None:
    etcd = client(f"{closed_url},{silent_url}", timeout_s=PATIENCE_S)
    before = time.monotonic()
    with pytest.raises(StoreUnavailable) as caught:
        etcd.read(unique)
    assert time.monotonic() - before < 2 * PATIENCE_S + 1
    assert str(caught.value) == (
        f"etcd does not answer ({urlsplit(closed_url).netloc}: [Errno 111] Connection refused;"
        f" {urlsplit(silent_url).netloc}: timed out)"
    )


def test_a_connection_that_was_closed_since_its_last_use_is_made_anew(etcd_url: str, unique: str) -> None:
    parts = urlsplit(etcd_url.split(",", maxsplit=1)[0])
    proxy = Proxy((parts.hostname or "", parts.port or 2379))
    etcd = client(proxy.through(parts.geturl()))
    etcd.read(unique)
    proxy.cut()
    assert etcd.read(unique) == []
    assert proxy.connections == 2
    proxy.close()


def test_what_is_no_etcd_is_passed_over(etcd_url: str, unique: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        page = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
        threading.Thread(target=lambda: listener.accept()[0].sendall(page), daemon=True).start()
        etcd = client(f"http://127.0.0.1:{listener.getsockname()[1]},{etcd_url}")
        assert etcd.read(unique) == []


def test_a_refusal_is_told_with_etcds_reason_and_no_other_member_is_asked(etcd_url: str, unique: str) -> None:
    etcd = client(etcd_url)
    with pytest.raises(EtcdRefused, match="requested lease not found") as caught:
        etcd.put(unique, "", "42")
    assert caught.value.status == 404


# -- leases and keys ------------------------------------------------------------------------------------------------


def test_a_key_is_made_once_and_dies_with_its_lease(etcd_url: str, unique: str) -> None:
    etcd = client(etcd_url)
    first, second = etcd.grant(60), etcd.grant(60)
    assert etcd.create({unique: "first"}, first) == {unique}
    assert etcd.create({unique: "second", f"{unique}/other": "second"}, second) == {f"{unique}/other"}
    etcd.delete([unique, f"{unique}/other"], second)
    assert [(key.key, key.value, key.lease) for key in etcd.read(unique)] == [(unique, "first", first)]
    assert etcd.keep_alive(first)
    etcd.revoke(first)
    etcd.revoke(first)
    assert etcd.read(unique) == []
    assert not etcd.keep_alive(first)


def test_a_lease_that_nobody_keeps_alive_ends_by_itself(etcd_url: str, unique: str) -> None:
    etcd = client(etcd_url)
    etcd.put(unique, "", etcd.grant(1))
    eventually(lambda: not etcd.read(unique))


# -- accounts and TLS -----------------------------------------------------------------------------------------------


def test_with_accounts_switched_on_the_user_gets_a_token_and_another_after_a_restart(
    own_etcd: Member, unique: str
) -> None:
    gateway = EtcdGateway(EtcdAddress(urls=(own_etcd.url,)), timeout_s=5)
    gateway.call("/v3/auth/user/add", {"name": "root", "password": "s3cret:1"})
    gateway.call("/v3/auth/role/add", {"name": "root"})
    gateway.call("/v3/auth/user/grant", {"user": "root", "role": "root"})
    gateway.call("/v3/auth/enable", {})
    known, wrong, nobody = (with_account(own_etcd.url, user) for user in ("root:s3cret:1", "root:other", ""))
    lease = known.grant(60)
    assert known.create({unique: ""}, lease) == {unique}
    for stranger in (wrong, nobody):
        with pytest.raises(EtcdRefused):
            stranger.read(unique)
    own_etcd.kill()
    own_etcd.start()
    assert [key.key for key in known.read(unique)] == [unique]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls_url(certificate: Path, etcd_url: str) -> Iterator[str]:
    """etcd behind a door that lets in who shows the certificate."""
    parts = urlsplit(etcd_url.split(",", maxsplit=1)[0])
    with tls_before(parts.hostname or "", parts.port or 2379, certificate, asks_for_one=True) as port:
        yield f"https://127.0.0.1:{port}"


def test_over_tls_both_sides_show_who_they_are(tls_url: str, certificate: Path, unique: str) -> None:
    files = {"ca": str(certificate), "cert": str(certificate), "key": str(certificate)}
    etcd = EtcdClient(EtcdGateway(EtcdAddress(urls=(tls_url,), **files), timeout_s=5))
    stream = etcd.watch(unique, idle_s=5)
    assert next(iter(stream))["created"]
    stream.close()
    etcd.close()
    assert etcd.read(unique) == []
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        EtcdClient(EtcdGateway(EtcdAddress(urls=(tls_url,)), timeout_s=5)).read(unique)
    etcd.close()


def test_a_certificate_that_is_no_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    address = EtcdAddress(urls=("https://127.0.0.1:2379",), ca=str(tmp_path / "none.pem"))
    with pytest.raises(InvalidField, match=r"the TLS files of etcd '.*none\.pem': .*No such file"):
        EtcdGateway(address, timeout_s=5)
