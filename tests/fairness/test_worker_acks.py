"""Which acknowledgements of a worker go together, and when."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
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
        self.celerys: list[str] = []
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.hub = SimpleNamespace(call_soon=self.soon.append)
        self.timer = SimpleNamespace(call_after=lambda after_s, call: self.later.append((self.now + after_s, call)))
        self.connection = SimpleNamespace(connection=SimpleNamespace(connected=True, sock=sock))
        self.call_soon_ack: Any = lambda _, name: self.celerys.append(name)

    def ended(self, name: str) -> None:
        self.call_soon_ack(self.send, name)

    def send(self, name: str) -> None:
        self.sent.append((name, self.now))

    def turn(self, *, after_s: float = 0.0) -> None:
        self.now += after_s
        due = [call for at, call in self.later if at <= self.now]
        self.later = [(at, call) for at, call in self.later if at > self.now]
        soon, self.soon[:] = self.soon[:], []
        for call in soon + due:
            call()

    @property
    def is_held_back(self) -> bool:
        assert acks.CORK is not None
        return bool(self.connection.connection.sock.getsockopt(socket.IPPROTO_TCP, acks.CORK))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        worker = Worker(sock)
        monkeypatch.setattr(acks, "monotonic", lambda: worker.now)
        yield worker


@pytest.fixture
def connected(worker: Worker) -> Acks:
    found = Acks(worker)
    found.connected()
    return found


@pytest.mark.usefixtures("connected")
class TestWhileTheConsumerRuns:
    def test_the_first_goes_in_the_next_turn(self, worker):
        worker.ended("a")
        worker.turn()

        assert worker.sent == [("a", 100.0)]

    def test_those_that_follow_soon_go_together_once_the_time_is_over(self, worker):
        worker.ended("a")
        worker.turn()
        for name in "bcd":
            worker.ended(name)
            worker.turn(after_s=TOGETHER_S / 8)
        assert [name for name, _ in worker.sent] == ["a"]

        worker.turn(after_s=TOGETHER_S)

        assert [name for name, _ in worker.sent] == ["a", "b", "c", "d"]
        assert len({at for _, at in worker.sent[1:]}) == 1

    def test_one_that_comes_later_than_that_waits_for_nobody(self, worker):
        worker.ended("a")
        worker.turn()
        worker.turn(after_s=2 * TOGETHER_S)
        worker.ended("b")
        worker.turn()

        assert worker.sent[-1] == ("b", worker.now)

    def test_one_that_fails_keeps_no_other_from_going(self, worker):
        worker.ended("a")
        worker.call_soon_ack(lambda: 1 / 0)
        worker.ended("b")
        with pytest.raises(ZeroDivisionError):
            worker.turn()
        worker.turn(after_s=2 * TOGETHER_S)

        assert [name for name, _ in worker.sent] == ["a", "b"]

    @pytest.mark.skipif(acks.CORK is None, reason="the system holds no packet back")
    def test_several_go_in_one_packet_and_the_socket_holds_nothing_back_after_it(self, worker):
        held = []
        worker.call_soon_ack(lambda: held.append(worker.is_held_back))
        worker.call_soon_ack(lambda: held.append(worker.is_held_back))
        worker.turn()

        assert held == [True, True]
        assert not worker.is_held_back

    def test_where_the_connection_is_lost_each_is_asked_to_go_all_the_same(self, worker):
        worker.connection.connection.connected = False
        worker.ended("a")
        worker.ended("b")
        worker.turn()

        assert [name for name, _ in worker.sent] == ["a", "b"]


def test_what_waits_goes_when_the_consumer_stops_and_after_it_nothing_waits(worker, connected):
    worker.ended("a")
    worker.turn()
    worker.ended("b")
    connected.stop()
    worker.ended("c")

    assert [name for name, _ in worker.sent] == ["a", "b"]
    assert worker.celerys == ["c"]


def test_before_there_is_a_connection_celery_sends_them(worker):
    Acks(worker)
    worker.ended("a")

    assert worker.celerys == ["a"]
