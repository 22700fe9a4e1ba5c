"""One connection to the broker, taken over from py-amqp after its handshake.

py-amqp does what is done once (address, TLS, authentication, tuning, opening two channels, ``confirm.select``); from
then on the socket is ours and never blocks: frames go out of a buffer, events come in, and both sides prove every
half heartbeat that they live.

Owned by one thread. Every end of the connection, from whichever side and of whatever kind, is raised as ``OSError``.
"""

from __future__ import annotations

import math
import socket
import ssl
import time
from typing import Any

import kombu
from amqp.exceptions import AMQPError
from amqp.serialization import dumps

from scheduling.broker.amqp_frames import HEARTBEAT_FRAME, method
from scheduling.broker.amqp_reader import ConnectionClosed, Event, FrameReader

PUBLISHING, DECLARING = 1, 2  # channels
HEARTBEAT_S = 10
CONNECT_TIMEOUT_S = 5.0
_CONNECTION_CLOSE, _CONNECTION_CLOSE_OK = (10, 50), (10, 51)
_READ_BYTES = 256 * 1024
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LinkEnded(ConnectionError):
    """The connection is over; the message says why."""


class AmqpLink:
    """A live connection with its two channels; ``frame_max`` is the negotiated size of a frame in bytes."""

    def __init__(self, connection: Any) -> None:
        self.sock: socket.socket = connection.transport.sock
        self.sock.setblocking(False)
        self.frame_max: int = connection.frame_max
        self._connection = connection  # kept alive: it owns the socket
        self._heartbeat_s = float(connection.heartbeat)
        self._reader = FrameReader()
        self._unsent = memoryview(b"")
        self._queued: list[bytes] = []
        self._heard_at = self._spoke_at = time.monotonic()

    @property
    def wants_to_write(self) -> bool:
        """Whether bytes wait for the socket to take them."""
        return bool(self._unsent) or bool(self._queued)

    def send(self, data: bytes) -> None:
        """Sends as much as the socket takes now and keeps the rest, in order. Raises ``OSError``."""
        self._queued.append(data)
        self.flush()

    def flush(self) -> None:
        """Sends what waits, as far as the socket takes it. Raises ``OSError``."""
        while self._unsent or self._queued:
            if not self._unsent:
                self._unsent = memoryview(b"".join(self._queued))
                self._queued.clear()
            try:
                sent = self.sock.send(self._unsent)
            except _WOULD_BLOCK:
                return
            self._unsent = self._unsent[sent:]
            self._spoke_at = time.monotonic()

    def receive(self) -> list[Event]:
        """What the broker has said since. Raises ``OSError`` when the connection ended."""
        events: list[Event] = []
        while True:
            try:
                data = self.sock.recv(_READ_BYTES)
            except _WOULD_BLOCK:
                return events
            if not data:
                raise LinkEnded("the broker closed the socket")
            self._heard_at = time.monotonic()
            events.extend(self._reader.feed(data))
            if not isinstance(self.sock, ssl.SSLSocket):  # TLS may hold more than the selector can see
                return events

    def next_beat_s(self, now_s: float) -> float:
        """Seconds until ``beat`` has something to do; infinite without heartbeats."""
        if not self._heartbeat_s:
            return math.inf
        return max(0.0, min(self._spoke_at + self._heartbeat_s / 2, self._heard_at + 2 * self._heartbeat_s) - now_s)

    def beat(self, now_s: float) -> None:
        """Says that we live, if it is time to. Raises ``LinkEnded`` when the broker was silent for two heartbeats."""
        if not self._heartbeat_s:
            return
        if now_s >= self._heard_at + 2 * self._heartbeat_s:
            raise LinkEnded(f"the broker was silent for {now_s - self._heard_at:.1f} s")
        if now_s >= self._spoke_at + self._heartbeat_s / 2:
            self._spoke_at = now_s  # also where the socket is full: what waits there is proof enough once it moves
            if not self.wants_to_write:
                self.send(HEARTBEAT_FRAME)

    def agree_to_close(self) -> None:
        """Answers the broker's close, so that it need not wait for us, and closes the socket."""
        self._farewell(method(0, _CONNECTION_CLOSE_OK))

    def close(self, *, timeout_s: float = 1.0) -> None:
        """Takes leave of the broker, waits shortly for its answer, and closes the socket. Never raises."""
        goodbye = method(0, _CONNECTION_CLOSE, dumps("BsBB", (200, "stopped", 0, 0)))
        self._farewell(goodbye, wait_until=time.monotonic() + timeout_s)

    def abort(self) -> None:
        """Closes the socket at once."""
        self.sock.close()

    def _farewell(self, data: bytes, *, wait_until: float = 0.0) -> None:
        try:
            self.sock.settimeout(1.0)
            self.sock.sendall(b"".join((self._unsent, *self._queued, data)))
            while (left_s := wait_until - time.monotonic()) > 0:
                self.sock.settimeout(left_s)
                if any(isinstance(event, ConnectionClosed) for event in self.receive()):
                    break
        except OSError:
            pass  # the socket is closed next in any case, and nothing depends on the other side having heard
        finally:
            self.sock.close()


def dial(
    url: str, *, heartbeat_s: int = HEARTBEAT_S, connect_timeout_s: float = CONNECT_TIMEOUT_S, tls: Any = None
) -> AmqpLink:
    """Connects and shakes hands: blocks for at most ``connect_timeout_s`` at each step.

    ``tls`` is Celery's ``broker_use_ssl``. Raises ``OSError``, also where the broker refuses account or virtual host.
    """
    # py-amqp's own limit, 1 s of unacknowledged bytes, would also end connections that the broker merely throttles.
    settings = (
        {socket.TCP_USER_TIMEOUT: 2000 * heartbeat_s} if hasattr(socket, "TCP_USER_TIMEOUT") and heartbeat_s else {}
    )
    address = kombu.Connection(
        url,
        heartbeat=heartbeat_s,
        connect_timeout=connect_timeout_s,
        transport_options={"socket_settings": settings},
        **({"ssl": tls} if tls else {}),
    )
    connection = None
    try:
        connection = address.transport.establish_connection()
        connection.transport.sock.settimeout(connect_timeout_s)
        publishing, _ = connection.channel(PUBLISHING), connection.channel(DECLARING)
        publishing.confirm_select()
        return AmqpLink(connection)
    except (AMQPError, OSError) as error:
        if connection is not None:
            connection.collect()
        raise error if isinstance(error, OSError) else LinkEnded(f"the broker refused us: {error}") from error
