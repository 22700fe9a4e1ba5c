"""A message that the broker has given up, as it comes out of the dead letters: what it says, and what it can be.

Whoever may publish can write anything into a message, so everything here is bounded, and nothing is believed but what
the broker has put in front: the first entry of ``x-death`` names the queue in which it died, why and when.

Pure. Does not do: decide what becomes of it (the ledger has to be asked).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from fairness.core.message_shape import problem_of
from scheduling.core import message
from scheduling.core.clock import EPOCH

KEPT_BYTES = 64 * 1024  # of a body
READ_BYTES = 4 * 1024 * 1024  # a longer body is not looked into
TASK_LIMIT = 255
TEXT_LIMIT = 1_000
JSON_TYPES = ("application/json", "text/json")
INTEGER_LIMIT = 2**31  # of the ledger's columns
DAYS_LIMIT = 2**15


class Death(StrEnum):
    """Why the broker gave a message up, in its own words."""

    REJECTED = "rejected"  # by a worker
    DELIVERY_LIMIT = "delivery_limit"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    NONE = ""  # it did not die: somebody has put it there


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFire:
    """The fire that a message names, which need not be its own."""

    fire_id: UUID
    job_id: UUID
    scheduled_for: datetime
    history_days: int
    fence: int
    tenant: str  # slug


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessage:
    death: Death
    queue: str  # in which it died
    died_at: datetime  # by the broker's clock, to the second
    task: str  # as it says; may be empty
    task_id: str
    fire: NamedFire | None
    problem: str  # why nobody can read it; empty: one can
    body: bytes  # its beginning
    is_redelivered: bool  # somebody else had it before, and may have collected it


def read(
    headers: Mapping[str, Any],
    body: bytes,
    *,
    content_type: str,
    is_redelivered: bool,
) -> DeadMessage:
    """Whatever a message holds, this returns."""
    death, queue, died_at = _death(headers)
    fire, problem = _named_fire(headers)
    return DeadMessage(
        death=death,
        queue=queue,
        died_at=died_at,
        task=_text(headers.get("task"))[:TASK_LIMIT],
        task_id=_text(headers.get("id")),
        fire=fire,
        problem=_text(problem or _problem_of_body(headers, body, content_type)),
        body=body[:KEPT_BYTES],
        is_redelivered=is_redelivered,
    )


def _death(headers: Mapping[str, Any]) -> tuple[Death, str, datetime]:
    """The latest one, which the broker puts in front."""
    deaths = headers.get("x-death")
    latest = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(latest, Mapping) or latest.get("reason") not in list(Death):
        return Death.NONE, "", EPOCH
    at = latest.get("time")
    died_at = at.replace(tzinfo=UTC) if isinstance(at, datetime) else EPOCH
    return Death(latest["reason"]), _text(latest.get("queue")), died_at


def _named_fire(headers: Mapping[str, Any]) -> tuple[NamedFire | None, str]:
    """The fire, or why none can be read; neither, where none is named."""
    if message.FENCE not in headers:
        return None, ""
    try:
        fire = NamedFire(
            fire_id=UUID(headers["id"]),
            job_id=UUID(headers[message.JOB]),
            scheduled_for=_instant(headers[message.SCHEDULED_FOR]),
            history_days=_positive(headers[message.KEEP], below=DAYS_LIMIT),
            fence=_positive(headers[message.FENCE], below=INTEGER_LIMIT),
            tenant=str(headers[message.TENANT]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        return None, f"its headers name no fire that can be read: {problem!r}"
    return fire, ""


def _instant(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no zone")
    return moment.astimezone(UTC)


def _positive(value: int | str, *, below: int) -> int:
    number = int(value)
    if not 0 < number < below:
        raise ValueError(f"{number} is not in 1-{below - 1}")
    return number


def _problem_of_body(headers: Mapping[str, Any], body: bytes, content_type: str) -> str:
    """As the worker's gate finds it, of JSON; nothing else is accepted there."""
    if len(body) > READ_BYTES or headers.get("compression"):
        return ""
    if content_type not in JSON_TYPES:
        return f"its content type {content_type!r:.100} is not JSON"
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as problem:
        return f"its body is no JSON: {problem}"
    return problem_of(headers, payload)


def _text(value: object) -> str:
    """What Postgres takes for a text, of a bounded length."""
    return value.replace("\0", "").encode(errors="replace").decode()[:TEXT_LIMIT] if isinstance(value, str) else ""
