"""What a turn of a worker's event loop reads."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from amqp.exceptions import RecoverableConnectionError
from amqp.transport import TCPTransport
from kombu.asynchronous import Hub

from fairness.worker.loop import read_ahead

OF_A_MESSAGE = (1, 2, 3)  # types of its frames: what it is, how long it is, and what is in it


class Link:
    """A connection to RabbitMQ: amqp's own way to read frames; a message is complete with its third one."""

    def __init__(self, sock: socket.socket) -> None:
        transport: Any = TCPTransport("localhost")
        transport.sock = self.sock = sock
        transport._setup_transport()
        transport.connected = True
        self.transport = transport
        self.read: list[bytes] = []

    @property
    def connected(self) -> bool:
        return bool(self.transport.connected)

    def blocking_read(self) -> bool:
        kind, _, payload = self.transport.read_frame()
        if kind == OF_A_MESSAGE[-1]:
            self.read.append(payload)
        return bool(kind == OF_A_MESSAGE[-1])

    def drain_events(self) -> None:
        while not self.blocking_read():
            pass


class Loop:
    """Celery's hub, as far as it is used; a turn is made when the test says so."""

    def __init__(self) -> None:
        self.timer = Mock()
        self.readers: dict[object, Callable[[], None]] = {}
        self.soon: list[Callable[[], None]] = []
        self.add_reader, self.call_soon = self.readers.__setitem__, self.soon.append


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"


def message(body: bytes) -> bytes:
    return b"".join(frame(kind, body if kind == OF_A_MESSAGE[-1] else b"...") for kind in OF_A_MESSAGE)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """RabbitMQ's, and the worker's."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        yield theirs, ours


def worker(ours: socket.socket, *, messages: int = 16, transport: str = "amqp") -> tuple[Link, Loop]:
    link, loop = Link(ours), Loop()
    read_ahead(consumer(link, loop, transport=transport), messages)
    return link, loop


def consumer(link: Link, hub: Any, *, transport: str = "amqp") -> Any:
    connection = SimpleNamespace(connection=link, transport=SimpleNamespace(driver_type=transport))
    return SimpleNamespace(hub=hub, connection=connection)


def bodies(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def test_all_messages_that_are_there_are_read_in_one_turn(ends):
    theirs, ours = ends
    link, loop = worker(ours)
    theirs.sendall(b"".join(map(message, bodies(1, 5))))

    loop.readers[ours]()

    assert link.read == bodies(1, 5)
    assert loop.soon == []


def test_what_is_more_than_a_turns_is_read_in_the_next_one(ends):
    theirs, ours = ends
    link, loop = worker(ours, messages=2)
    theirs.sendall(b"".join(map(message, bodies(1, 5))))

    loop.readers[ours]()
    assert link.read == bodies(1, 2)
    loop.soon.pop()()
    assert link.read == bodies(1, 4)
    loop.soon.pop()()

    assert link.read == bodies(1, 5)
    assert loop.soon == []


def test_the_next_turn_is_asked_for_once_however_often_the_socket_has_something(ends):
    theirs, ours = ends
    link, loop = worker(ours, messages=1)
    theirs.sendall(b"".join(map(message, bodies(1, 5))))

    loop.readers[ours]()
    loop.readers[ours]()

    assert link.read == bodies(1, 2)
    assert len(loop.soon) == 1


def test_the_loop_does_not_wait_for_its_sockets_while_messages_are_left(ends):
    theirs, ours = ends
    link, hub = Link(ours), Hub()
    waits: list[float] = []  # those before which something was left
    poll = hub.poller.poll

    def poll_timed(timeout: float) -> Any:
        if 0 < len(link.read) < 5:
            waits.append(timeout)
        return poll(timeout)

    hub.poller.poll = poll_timed
    read_ahead(consumer(link, hub), messages=1)
    theirs.sendall(b"".join(map(message, bodies(1, 5))))

    turns = hub.create_loop()
    while len(link.read) < 5:
        next(turns)
    hub.close()

    assert link.read == bodies(1, 5)
    assert max(waits) <= 0.001


@pytest.mark.parametrize("at", [1, 7, 8, 12, 30])
def test_a_frame_in_two_parts_is_read_when_the_second_has_come_and_nobody_waits_for_it(ends, at):
    theirs, ours = ends
    link, loop = worker(ours)
    whole = message(b"body")

    theirs.sendall(whole[:at])
    loop.readers[ours]()
    assert link.read == []
    theirs.sendall(whole[at:] + message(b"next"))
    loop.readers[ours]()

    assert link.read == [b"body", b"next"]


def test_a_message_larger_than_what_is_received_at_once_is_read_in_as_many_turns_as_it_takes(ends):
    theirs, ours = ends
    link, loop = worker(ours)
    theirs.sendall(message(b"x" * 50_000))

    for _ in range(4):
        loop.readers[ours]()

    assert link.read == [b"x" * 50_000]


def test_a_wake_up_for_nothing_reads_nothing(ends):
    _, ours = ends
    link, loop = worker(ours)

    loop.readers[ours]()

    assert link.read == []
    assert link.connected


def test_what_came_before_the_end_of_the_connection_is_read_before_that_is_told(ends):
    theirs, ours = ends
    link, loop = worker(ours)
    theirs.sendall(message(b"last"))
    theirs.close()

    loop.readers[ours]()
    assert link.read == [b"last"]
    with pytest.raises(OSError, match="closed"):
        loop.readers[ours]()

    assert not link.connected


def test_a_connection_that_is_reset_is_known_to_be_lost(ends):
    _, ours = ends
    link, loop = worker(ours)
    ours.close()

    with pytest.raises(OSError, match="descriptor"):
        loop.readers[ours]()

    assert not link.connected


def test_a_connection_that_is_closed_is_no_socket_without_messages(ends):
    _, ours = ends
    link, loop = worker(ours)
    link.transport.connected = False

    with pytest.raises(RecoverableConnectionError):
        loop.readers[ours]()


def test_what_was_left_of_a_connection_that_was_lost_does_not_end_the_next_one(ends):
    theirs, ours = ends
    link, loop = worker(ours, messages=1)
    theirs.sendall(b"".join(map(message, bodies(1, 2))))
    loop.readers[ours]()
    link.transport.connected = False

    loop.soon.pop()()

    assert link.read == bodies(1, 1)


def test_nothing_wakes_the_loop_for_what_was_left_of_a_connection_that_was_lost(ends):
    theirs, ours = ends
    link, loop = worker(ours, messages=1)
    theirs.sendall(b"".join(map(message, bodies(1, 2))))
    loop.readers[ours]()
    (_, wake), _ = loop.timer.call_after.call_args
    link.transport.connected = False
    loop.timer.reset_mock()

    wake()

    loop.timer.call_after.assert_not_called()


def test_what_is_no_rabbitmq_is_read_as_ever(ends):
    _, loop = worker(ends[1], transport="redis")

    assert loop.readers == {}
