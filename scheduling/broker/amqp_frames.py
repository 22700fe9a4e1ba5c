"""AMQP 0-9-1 frames that we write ourselves: the messages of fires, as cheaply as Python can.

A message is three frames or more::

    method   basic.publish: exchange "", routing key, mandatory       the same for all messages of a queue
    header   size of the body, properties, table of headers           the same for a (queue, task), but for the *slots*
    body     JSON of the arguments, at most ``frame_max - 8`` bytes in each frame

py-amqp would serialise the table anew for every message. Here the table that ``core.message.headers`` gives for the
first fire of a (queue, task) is serialised by py-amqp once and cut at the slots, the headers that differ from fire to
fire; each further message joins the pieces with its own values. So names, order and encodings come from
``core.message`` and py-amqp alone; a test holds the bytes against py-amqp's own.

Does not do: confirms, sockets, the order of anything.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from struct import Struct
from typing import Any
from uuid import UUID

from amqp.serialization import dumps

from scheduling.core import masking, message
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire
from scheduling.core.masking import Mask

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = b"\xce"
OVERHEAD = 8  # bytes of a frame around its payload
MAX_BODY_BYTES = 16 * 1024 * 1024  # RabbitMQ 4's default; a larger message would close the channel for all others
MAX_TEMPLATES = 10_000

# The headers whose values differ between fires of one (queue, task), in the order of core.message.
SLOTS = (
    "id", "timelimit", "root_id", "argsrepr", "kwargsrepr",
    message.JOB_NAME, message.JOB, message.FENCE, message.SCHEDULED_FOR, message.ORIGIN, message.TENANT, message.KEEP,
)  # fmt: skip

_BASIC, _PUBLISH = 60, 40
_MANDATORY = 1
# Content type and encoding, headers, delivery mode, priority, correlation id, reply to.
_PROPERTY_FLAGS = 0b1111_1110_0000_0000
_BEFORE_TABLE = dumps("ss", ("application/json", "utf-8"))
_AFTER_TABLE = dumps("oo", (2, 0)) + b"\x24"  # persistent, priority, length of the correlation id
_REPLY_TO = b"\x00"
_FRAME = Struct(">BHI").pack
_CONTENT = Struct(">HHQH").pack  # class, weight, size of the body, property flags
_CONTENT_SIZE = len(_CONTENT(0, 0, 0, 0)) + len(_BEFORE_TABLE) + 4 + len(_AFTER_TABLE) + 36 + len(_REPLY_TO)
_LONG = Struct(">I").pack
_TEXT = Struct(">cI").pack
_INT = Struct(">ci").pack
_BIG_INT = Struct(">cq").pack
_INT_MAX = 2_147_483_647

Limits = tuple[float | None, float | None]


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame."""
    return _FRAME(kind, channel, len(payload)) + payload + END


def method(channel: int, signature: tuple[int, int], arguments: bytes = b"") -> bytes:
    """The frame of a method, with arguments as py-amqp's ``dumps`` gives them."""
    return frame(METHOD, channel, signature[0].to_bytes(2, "big") + signature[1].to_bytes(2, "big") + arguments)


HEARTBEAT_FRAME = frame(HEARTBEAT, 0, b"")


class MessageWriter:
    """Renders fires for one channel of one connection.

    ``origin`` is the sender as Celery names it; ``ignore_result`` says, by the task's name, what the task says of its
    result (None where it is unknown); ``frame_max`` is the negotiated size of a frame in bytes.
    """

    def __init__(
        self,
        *,
        origin: str,
        ignore_result: Callable[[str], bool | None],
        frame_max: int,
        channel: int,
        mask: Mask = masking.DEFAULT,
    ) -> None:
        self._origin, self._mask = origin, mask
        self._ignore_result = ignore_result
        self._payload_max = frame_max - OVERHEAD
        self._channel = channel
        self._templates: dict[tuple[str, str], tuple[bytes, list[bytes]]] = {}
        self._timelimits: dict[Limits, bytes] = {}
        self._moment: datetime | None = None
        self._moment_text = b""

    def render(self, fire: Fire, queue: str) -> bytes:
        """All frames of one message. Raises ``ValueError`` (as ``InvalidField``, where it knows more) for a fire that
        cannot be written."""
        work = fire.work
        publish, piece = self._templates.get((queue, work.task)) or self._compile(fire, queue)
        fire_id = _uuid_text(fire.id)
        limits = work.hard_timeout_s, work.soft_timeout_s
        args = self._mask.beginning(work.args, message.REPR_LIMIT).encode()
        kwargs = self._mask.beginning(work.kwargs, message.REPR_LIMIT).encode()
        name, origin, tenant = work.name.encode(), fire.origin.encode(), work.tenant.encode()
        fence = fire.fence
        table = b"".join((
            piece[0], fire_id,
            piece[1], self._timelimits.get(limits) or self._timelimit(limits),
            piece[2], fire_id,
            piece[3], _TEXT(b"S", len(args)), args,
            piece[4], _TEXT(b"S", len(kwargs)), kwargs,
            piece[5], _TEXT(b"S", len(name)), name,
            piece[6], _uuid_text(work.job_id),
            piece[7], _INT(b"I", fence) if fence <= _INT_MAX else _BIG_INT(b"L", fence),
            piece[8], self._moment_text if fire.scheduled_for == self._moment else self._iso(fire.scheduled_for),
            piece[9], _TEXT(b"S", len(origin)), origin,
            piece[10], _TEXT(b"S", len(tenant)), tenant,
            piece[11], _INT(b"I", work.history_days),
        ))  # fmt: skip
        body = message.body(work.args, work.kwargs)
        if len(body) > self._payload_max or len(table) + _CONTENT_SIZE > self._payload_max:
            bodies = self._split(fire, table, body)
        else:
            bodies = _FRAME(BODY, self._channel, len(body)) + body + END
        return b"".join((
            publish,
            _FRAME(HEADER, self._channel, len(table) + _CONTENT_SIZE),
            _CONTENT(_BASIC, 0, len(body), _PROPERTY_FLAGS), _BEFORE_TABLE, _LONG(len(table)), table,
            _AFTER_TABLE, fire_id, _REPLY_TO, END,
            bodies,
        ))  # fmt: skip

    def _split(self, fire: Fire, table: bytes, body: bytes) -> bytes:
        if len(body) > MAX_BODY_BYTES:
            raise InvalidField("args", "…", f"{len(body)} bytes of message, more than {MAX_BODY_BYTES}")
        if len(table) + _CONTENT_SIZE > self._payload_max:
            raise InvalidField("name", fire.work.name, f"headers of {len(table)} bytes do not fit into one frame")
        step = self._payload_max
        return b"".join(frame(BODY, self._channel, body[at : at + step]) for at in range(0, len(body), step))

    def _compile(self, fire: Fire, queue: str) -> tuple[bytes, list[bytes]]:
        """The method frame of a queue, and what stands before each slot in the table of a task."""
        task = fire.work.task
        pieces, constant, slots = [], b"", iter(SLOTS)
        slot = next(slots)
        for key, value in message.headers(fire, origin=self._origin, ignore_result=self._ignore_result(task)).items():
            if key != slot:
                constant += _item(key, value)
                continue
            pieces.append(constant + _before_value(key, value))
            constant, slot = b"", next(slots, "")
        if constant or slot:
            raise AssertionError(f"the slots do not match the headers of core.message, at {slot or 'the end'}")
        arguments = dumps("Bssb", (0, "", queue, _MANDATORY))
        template = method(self._channel, (_BASIC, _PUBLISH), arguments), pieces
        if len(self._templates) >= MAX_TEMPLATES:
            self._templates.clear()
        self._templates[queue, task] = template
        return template

    def _timelimit(self, limits: Limits) -> bytes:
        if len(self._timelimits) >= MAX_TEMPLATES:
            self._timelimits.clear()
        encoded = self._timelimits[limits] = _item("timelimit", list(limits))[len(b"\x09timelimit") :]
        return encoded

    def _iso(self, moment: datetime) -> bytes:
        """Many fires share an instant: the text of the last one is kept."""
        self._moment, self._moment_text = moment, message.instant(moment).encode()
        return self._moment_text


def _item(key: str, value: Any) -> bytes:
    return dumps("F", ({key: value},))[4:]


def _before_value(key: str, value: Any) -> bytes:
    """The key of a slot; and, where all its values are texts of one length, type and length too."""
    encoded = dumps("s", (key,))
    if key in ("id", "root_id", message.JOB, message.SCHEDULED_FOR):
        encoded += _TEXT(b"S", len(value))
    return encoded


def _uuid_text(value: UUID) -> bytes:
    """``str(value).encode()``, at a third of its cost."""
    pairs = value.int.to_bytes(16, "big").hex("-", 2)  # 0011-2233-4455-6677-8899-aabb-ccdd-eeff
    return f"{pairs[:4]}{pairs[5:29]}{pairs[30:34]}{pairs[35:]}".encode()
