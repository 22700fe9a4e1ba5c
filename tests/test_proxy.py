"""The proxy that stands between our processes and their services where a test breaks the network."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.processes import PATIENCE_S, eventually
from tests.proxy import Proxy, Way


class Echo:
    """A service that answers each line with itself, and counts what it has heard, and who has left."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.heard = self.left = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as lines:
            for line in lines:
                self.heard += 1
                client.sendall(line)
        self.left += 1


@pytest.fixture
def echo() -> Iterator[Echo]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Echo(listener)


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    made = Proxy(echo.listener.getsockname())
    yield made
    made.close()


def client(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S)


def says(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def test_what_is_said_and_answered_passes(proxy: Proxy) -> None:
    with client(proxy) as one, client(proxy) as other:
        assert [says(one, b"a\n"), says(other, b"b\n"), says(one, b"c\n")] == [b"a\n", b"b\n", b"c\n"]
    assert proxy.connections == 2


def test_a_unix_socket_can_be_reached(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "door"))
        listener.listen()
        Echo(listener)
        proxy = Proxy(tmp_path / "door")
        with client(proxy) as one:
            assert says(one, b"a\n") == b"a\n"
        proxy.close()


def test_answers_that_are_held_arrive_on_release_though_the_service_had_the_question(echo: Echo, proxy: Proxy) -> None:
    with client(proxy) as one:
        proxy.hold(Way.BACK)
        one.sendall(b"a\n")
        eventually(lambda: echo.heard == 1)
        one.settimeout(0.1)
        with pytest.raises(TimeoutError):
            one.recv(100)
        one.settimeout(PATIENCE_S)
        proxy.release()
        assert one.recv(100) == b"a\n"


def test_what_is_held_on_its_way_forth_is_not_heard_before_release(echo: Echo, proxy: Proxy) -> None:
    with client(proxy) as one:
        proxy.hold(Way.FORTH)
        one.sendall(b"a\n")
        one.settimeout(0.1)
        with pytest.raises(TimeoutError):
            one.recv(100)
        assert echo.heard == 0
        one.settimeout(PATIENCE_S)
        proxy.release()
        assert one.recv(100) == b"a\n"


def test_a_lost_reply_ends_the_connection_after_the_service_has_done_its_work(echo: Echo, proxy: Proxy) -> None:
    with client(proxy) as one:
        proxy.lose_replies(lambda said: b"COMMIT" in said)
        assert says(one, b"begin\n") == b"begin\n"
        assert says(one, b"COMMIT\n") == b""
    assert echo.heard == 2
    proxy.lose_replies(None)
    with client(proxy) as other:
        assert says(other, b"COMMIT\n") == b"COMMIT\n"


def test_a_cut_ends_all_connections_and_refuses_new_ones_until_it_accepts_again(proxy: Proxy) -> None:
    with client(proxy) as one:
        says(one, b"a\n")
        proxy.cut(refuse=True)
        assert one.recv(100) == b""
    with client(proxy) as refused:
        assert refused.recv(100) == b""
    proxy.accept_again()
    with client(proxy) as again:
        assert says(again, b"b\n") == b"b\n"


def test_a_half_open_connection_has_ended_for_the_service_alone_until_release(echo: Echo, proxy: Proxy) -> None:
    with client(proxy) as one:
        says(one, b"a\n")
        proxy.half_open()
        eventually(lambda: echo.left == 1)
        one.sendall(b"b\n")
        one.settimeout(0.1)
        with pytest.raises(TimeoutError):
            one.recv(100)
        assert echo.heard == 1
        one.settimeout(PATIENCE_S)
        proxy.release()
        assert one.recv(100) == b""


def test_a_service_that_is_down_costs_its_client_the_connection_and_nothing_else(echo: Echo, proxy: Proxy) -> None:
    address = echo.listener.getsockname()
    echo.listener.shutdown(socket.SHUT_RDWR)
    echo.listener.close()
    with client(proxy) as refused:
        assert refused.recv(100) == b""
    with socket.create_server(address) as listener:
        Echo(listener)
        with client(proxy) as again:
            assert says(again, b"a\n") == b"a\n"


def test_a_url_leads_through_the_proxy_with_its_account_and_path(proxy: Proxy) -> None:
    through = urlsplit(proxy.through("postgresql://postgres@%2Ftmp%2Fdoor/fairbeat?a=b"))
    assert (through.scheme, through.username, through.hostname) == ("postgresql", "postgres", "127.0.0.1")
    assert (through.port, through.path, through.query) == (proxy.port, "/fairbeat", "a=b")
