"""Bytes from the broker → what it says. The other half of ``amqp_frames``; pure.

Only what a publisher can be told is understood: confirms, returns, answers to declarations, closes, blocked,
heartbeats. Anything else is a protocol error, which ends the connection: guessing would mean counting a confirm that
is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from amqp.serialization import decode_properties_basic, loads

from scheduling.broker.amqp_frames import BODY, HEADER, HEARTBEAT, METHOD

_FRAME = Struct(">BHI").unpack_from
_SIGNATURE = Struct(">HH").unpack_from
_CONFIRM = Struct(">QB").unpack_from
_SIZE = Struct(">Q").unpack_from
_HEAD = 7  # bytes before a frame's payload
_END = 0xCE

_ACK, _NACK, _RETURN = (60, 80), (60, 120), (60, 50)
_CONNECTION_CLOSE, _CONNECTION_CLOSE_OK = (10, 50), (10, 51)
_BLOCKED, _UNBLOCKED = (10, 60), (10, 61)
_CHANNEL_CLOSE = (20, 40)


@dataclass(frozen=True, slots=True)
class Confirm:
    """The broker decided on message ``tag`` of the channel, and with ``multiple`` on all lower ones."""

    tag: int
    multiple: bool
    accepted: bool


@dataclass(frozen=True, slots=True)
class Returned:
    """A message found no queue. Its ack still follows."""

    correlation_id: str
    routing_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A declaration, or the opening of a channel, was carried out."""

    channel: int
    signature: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The broker refused a method and closed its channel; it expects a close-ok."""

    channel: int
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The broker closed the connection, or agrees to our close (``code`` 0)."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """The broker stops, or begins again, to take messages (memory or disk alarm)."""

    reason: str | None  # None: no longer blocked


Event = Confirm | Returned | Answer | ChannelClosed | ConnectionClosed | Blocked

# open-ok, exchange declare-ok, queue declare-ok, bind-ok
_ANSWERS = frozenset({(20, 11), (40, 11), (50, 11), (50, 21)})


class ProtocolError(ConnectionError):
    """The broker sent what a publisher cannot be told."""


class FrameReader:
    """Cuts the stream into frames, and joins the frames of a returned message."""

    def __init__(self) -> None:
        self._rest = b""
        self._return_args = b""
        self._return_missing = -1  # bytes of body still to come; -1: no returned message is being read
        self._return_header = b""

    def feed(self, data: bytes) -> Iterator[Event]:
        """What the bytes say, together with what was left of earlier ones. Raises ``ProtocolError``."""
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        while end - at > _HEAD:
            kind, channel, size = _FRAME(data, at)
            start, stop = at + _HEAD, at + _HEAD + size
            if stop >= end:
                break
            if data[stop] != _END:
                raise ProtocolError(f"a frame of type {kind} does not end where it says")
            at = stop + 1
            event = self._frame(kind, channel, data, start, stop)
            if event is not None:
                yield event
        self._rest = data[at:]

    def _frame(self, kind: int, channel: int, data: bytes, start: int, stop: int) -> Event | None:
        if kind == METHOD:
            signature = _SIGNATURE(data, start)
            if signature in (_ACK, _NACK):
                tag, bits = _CONFIRM(data, start + 4)
                return Confirm(tag, bool(bits & 1), signature == _ACK)
            return self._method(signature, channel, data[start + 4 : stop])
        if kind == HEARTBEAT:
            return None
        if kind in (HEADER, BODY) and self._return_args:
            return self._content(kind, data[start:stop])
        raise ProtocolError(f"a frame of type {kind} where none is expected")

    def _method(self, signature: tuple[int, int], channel: int, arguments: bytes) -> Event | None:
        if signature in _ANSWERS:
            return Answer(channel, signature)
        if signature == _RETURN:
            self._return_args = arguments
            return None
        if signature == _CHANNEL_CLOSE:
            code, text = loads("Bs", arguments, 0)[0]
            return ChannelClosed(channel, code, text)
        if signature == _CONNECTION_CLOSE:
            code, text = loads("Bs", arguments, 0)[0]
            return ConnectionClosed(code, text)
        if signature == _CONNECTION_CLOSE_OK:
            return ConnectionClosed(0, "closed by us")
        if signature == _BLOCKED:
            return Blocked(loads("s", arguments, 0)[0][0])
        if signature == _UNBLOCKED:
            return Blocked(None)
        raise ProtocolError(f"method {signature} on channel {channel} where none is expected")

    def _content(self, kind: int, payload: bytes) -> Returned | None:
        if kind == HEADER:
            self._return_header, (self._return_missing,) = payload, _SIZE(payload, 4)
        else:
            self._return_missing -= len(payload)
        if self._return_missing > 0:
            return None
        _code, reason, _exchange, routing_key = loads("Bsss", self._return_args, 0)[0]
        properties, _ = decode_properties_basic(self._return_header, 12)
        self._return_args, self._return_missing = b"", -1
        return Returned(properties.get("correlation_id", ""), routing_key, reason)
