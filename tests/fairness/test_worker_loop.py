"""What a turn of a worker's event loop reads."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from amqp.exceptions import RecoverableConnectionError

from fairness.worker.loop import MESSAGES, read_several


class Link:
    """A connection to RabbitMQ, with so many messages in its socket."""

    def __init__(self, messages: int) -> None:
        self.sock, self.connected, self.messages = object(), True, messages

    def drain_events(self, *, timeout: float) -> None:
        assert timeout == 0  # it does not wait for one
        if not self.messages:
            raise TimeoutError
        self.messages -= 1


class Loop:
    """Celery's hub, as far as it is used; a turn is made when the test says so."""

    def __init__(self) -> None:
        self.readers: dict[object, Callable[[], None]] = {}
        self.soon: list[Callable[[], None]] = []
        self.add_reader, self.call_soon = self.readers.__setitem__, self.soon.append


def worker(messages: int, *, transport: str = "amqp") -> tuple[Any, Link, Loop]:
    link, loop = Link(messages), Loop()
    connection = SimpleNamespace(connection=link, transport=SimpleNamespace(driver_type=transport))
    return SimpleNamespace(hub=loop, connection=connection), link, loop


def test_all_messages_that_are_there_are_read_in_one_turn():
    c, link, loop = worker(5)
    read_several(c)

    loop.readers[link.sock]()

    assert link.messages == 0
    assert loop.soon == []


def test_what_is_more_than_a_turns_is_read_in_the_next_one():
    c, link, loop = worker(MESSAGES + 3)
    read_several(c)

    loop.readers[link.sock]()
    assert link.messages == 3
    loop.soon.pop()()

    assert link.messages == 0
    assert loop.soon == []


def test_a_connection_that_is_closed_is_no_socket_without_messages():
    c, link, loop = worker(5)
    read_several(c)
    link.connected = False

    with pytest.raises(RecoverableConnectionError):
        loop.readers[link.sock]()


@pytest.mark.parametrize("loopless", [True, False])
def test_what_is_no_rabbitmq_beside_an_event_loop_is_read_as_ever(loopless):
    c, _, loop = worker(5, transport="redis")
    if loopless:
        c.hub, c.connection.transport.driver_type = None, "amqp"

    read_several(c)

    assert loop.readers == {}
