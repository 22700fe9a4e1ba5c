"""Which acknowledgements of a worker go together, and when."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from fairness.worker import acks
from fairness.worker.acks import TOGETHER_S, Acks


class Worker:
    """A consumer with its loop and timer, whose time the test makes; ``sent`` is what went, and when."""

    def __init__(self, sock: socket.socket) -> None:
        self.now = 100.0
        self.sent: list[tuple[str, float]] = []
        self.celerys = 0  # that Celery was to send
        self.soon: list[Callable[[], Any]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.hub = SimpleNamespace(call_soon=lambda call, *args: self.soon.append(partial(call, *args)))
        self.timer = SimpleNamespace(call_after=lambda after_s, call: self.later.append((self.now + after_s, call)))
        self.connection = SimpleNamespace(connection=SimpleNamespace(connected=True, sock=sock))
        self.call_soon_ack: Any = self._celerys_way

    def _celerys_way(self, send: Callable[[], None]) -> None:
        self.celerys += 1
        send()

    def ended(self, name: str) -> None:
        self.call_soon_ack(self.send, name)

    def send(self, name: str) -> None:
        self.sent.append((name, self.now))

    def turn(self, *, after_s: float = 0.0) -> None:
        self.now += after_s
        soon, self.soon[:] = self.soon[:], []
        for call in soon:
            call()
        due = [call for at, call in self.later if at <= self.now]
        self.later = [(at, call) for at, call in self.later if at > self.now]
        for call in due:
            call()

    @property
    def is_held_back(self) -> bool:
        assert acks.CORK is not None
        return bool(self.connection.connection.sock.getsockopt(socket.IPPROTO_TCP, acks.CORK))


@pytest.fixture
def worker() -> Iterator[Worker]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        yield Worker(sock)


@pytest.fixture
def connected(worker: Worker) -> Acks:
    found = Acks(worker)
    found.connected()
    return found


@pytest.mark.usefixtures("connected")
class TestWhileTheConsumerRuns:
    def test_one_waits_a_little_so_that_its_slot_is_filled_before(self, worker):
        worker.ended("a")
        worker.turn()
        assert worker.sent == []

        worker.turn(after_s=TOGETHER_S)

        assert worker.sent == [("a", 100.0 + TOGETHER_S)]

    def test_those_that_end_meanwhile_go_with_it(self, worker):
        for name in "abc":
            worker.ended(name)
            worker.turn(after_s=TOGETHER_S / 8)
        assert worker.sent == []

        worker.turn(after_s=TOGETHER_S)

        assert worker.sent == [(name, worker.now) for name in "abc"]

    def test_those_that_end_after_that_wait_anew(self, worker):
        worker.ended("a")
        worker.turn()
        worker.turn(after_s=TOGETHER_S)
        worker.ended("b")
        worker.turn()
        assert [name for name, _ in worker.sent] == ["a"]

        worker.turn(after_s=TOGETHER_S)

        assert worker.sent[-1] == ("b", worker.now)

    def test_one_of_a_thread_wakes_the_loop_and_waits_there(self, worker):
        thread = Thread(target=worker.ended, args=["a"])
        thread.start()
        thread.join()
        assert worker.later == []
        worker.turn(after_s=0.5)
        assert worker.sent == []

        worker.turn(after_s=TOGETHER_S)

        assert worker.sent == [("a", worker.now)]

    def test_one_that_the_loop_brings_before_it_waits_for_its_sockets_does_not_wait_as_long(self, worker):
        worker.soon.append(partial(worker.ended, "a"))
        worker.turn()
        assert worker.soon == []  # which would be done after the wait

        worker.turn(after_s=TOGETHER_S)

        assert worker.sent == [("a", worker.now)]

    def test_one_that_fails_keeps_no_other_from_going(self, worker):
        worker.ended("a")
        worker.call_soon_ack(lambda: 1 / 0)
        worker.ended("b")
        worker.turn()
        with pytest.raises(ZeroDivisionError):
            worker.turn(after_s=TOGETHER_S)
        worker.turn()
        worker.turn(after_s=TOGETHER_S)

        assert [name for name, _ in worker.sent] == ["a", "b"]

    @pytest.mark.skipif(acks.CORK is None, reason="the system holds no packet back")
    def test_several_go_in_one_packet_and_the_socket_holds_nothing_back_after_it(self, worker):
        held = []
        worker.call_soon_ack(lambda: held.append(worker.is_held_back))
        worker.call_soon_ack(lambda: held.append(worker.is_held_back))
        worker.turn()
        worker.turn(after_s=TOGETHER_S)

        assert held == [True, True]
        assert not worker.is_held_back

    def test_where_the_connection_is_lost_each_is_asked_to_go_all_the_same(self, worker):
        worker.connection.connection.connected = False
        worker.ended("a")
        worker.ended("b")
        worker.turn()
        worker.turn(after_s=TOGETHER_S)

        assert [name for name, _ in worker.sent] == ["a", "b"]


def test_what_waits_goes_when_the_consumer_stops_and_after_it_nothing_waits(worker, connected):
    worker.ended("a")
    worker.turn()
    worker.ended("b")
    connected.stop()
    worker.turn(after_s=TOGETHER_S)
    worker.ended("c")

    assert [name for name, _ in worker.sent] == ["a", "b", "c"]
    assert worker.celerys == 1


def test_one_that_a_thread_brings_while_the_consumer_stops_is_not_left_behind(worker, connected, monkeypatch):
    class StoppedBefore(deque[Any]):
        def append(self, send: Any) -> None:
            connected.stop()
            super().append(send)

    class StoppedAfter(deque[Any]):
        def append(self, send: Any) -> None:
            super().append(send)
            connected.stop()

    for waiting in StoppedBefore(), StoppedAfter():
        connected.connected()
        monkeypatch.setattr(connected, "_waiting", waiting)
        worker.ended("a")

    assert [name for name, _ in worker.sent] == ["a", "a"]


def test_before_there_is_a_connection_celery_sends_them(worker):
    Acks(worker)
    worker.ended("a")

    assert [name for name, _ in worker.sent] == ["a"]
    assert worker.celerys == 1
