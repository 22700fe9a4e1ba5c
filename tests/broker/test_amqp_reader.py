"""What the broker says, cut in any place."""

from __future__ import annotations

from typing import Any

import pytest
from amqp.basic_message import Message
from amqp.serialization import dumps
from hypothesis import given
from hypothesis import strategies as st

from scheduling.broker.amqp_frames import HEARTBEAT_FRAME, frame, method
from scheduling.broker.amqp_reader import (
    Answer,
    Blocked,
    ChannelClosed,
    Confirm,
    ConnectionClosed,
    Event,
    FrameReader,
    ProtocolError,
    Returned,
)


def returned(correlation_id: str, body: bytes) -> bytes:
    content: Any = Message(body, correlation_id=correlation_id, application_headers={"a": [1]})
    properties = content._serialize_properties()
    return b"".join((
        method(1, (60, 50), dumps("Bsss", (312, "NO_ROUTE", "", "a.queue"))),
        frame(2, 1, dumps("BBL", (60, 0, len(body))) + properties),
        *(frame(3, 1, body[at : at + 10]) for at in range(0, len(body), 10)),
    ))  # fmt: skip


SAID: list[tuple[bytes, Event | None]] = [
    (method(1, (60, 80), dumps("Lb", (7, False))), Confirm(7, multiple=False, accepted=True)),
    (method(1, (60, 80), dumps("Lb", (2**40, True))), Confirm(2**40, multiple=True, accepted=True)),
    (method(1, (60, 120), dumps("Lb", (9, True))), Confirm(9, multiple=True, accepted=False)),
    (HEARTBEAT_FRAME, None),
    (returned("some-id", b"x" * 35), Returned("some-id", "a.queue", "NO_ROUTE")),
    (returned("empty", b""), Returned("empty", "a.queue", "NO_ROUTE")),
    (method(2, (50, 11), dumps("sll", ("q", 0, 0))), Answer(2, (50, 11))),
    (method(2, (20, 40), dumps("BsBB", (406, "no", 50, 10))), ChannelClosed(2, 406, "no")),
    (method(0, (10, 60), dumps("s", ("low on disk",))), Blocked("low on disk")),
    (method(0, (10, 61)), Blocked(None)),
    (method(0, (10, 50), dumps("BsBB", (320, "bye", 0, 0))), ConnectionClosed(320, "bye")),
    (method(0, (10, 51)), ConnectionClosed(0, "closed by us")),
]


@given(st.lists(st.sampled_from(SAID), max_size=12), st.lists(st.integers(1, 40), min_size=1))
def test_events_come_out_whole_however_the_bytes_are_cut(
    said: list[tuple[bytes, Event | None]], cuts: list[int]
) -> None:
    data = b"".join(part for part, _ in said)
    reader, heard, at = FrameReader(), list[Event](), 0
    while at < len(data):
        step = cuts[at % len(cuts)]
        heard.extend(reader.feed(data[at : at + step]))
        at += step
    assert heard == [event for _, event in said if event is not None]


@pytest.mark.parametrize(
    "data",
    [
        HEARTBEAT_FRAME[:-1] + b"\x00",
        frame(3, 1, b"a body without a message"),
        frame(9, 1, b"no such type"),
        method(1, (60, 60), b"a delivery, which nobody asked for"),
    ],
)
def test_what_a_publisher_cannot_be_told_ends_the_connection(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(data))
