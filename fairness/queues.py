"""Tenant and lane → the broker's queue: its name and the arguments with which it is declared.

Invariants:

- Declaring a queue anew with other arguments is refused by the broker, so whatever the arguments depend on is part of
  the name: ``v1`` is the shape below with the default sizes, ``v1-m100`` the same with ``max_length=100``. A changed
  setting therefore makes new queues beside the old ones, which drain; it never ends in a refusal.
- Names cannot collide: lane and version hold no dot, so a name reads from its right end, whatever dots a tenant's
  slug has; dead-letter queues start with another prefix (``fairbeat-dead.``) than tenants' queues (``fairbeat.``).
- ``max_length`` with ``reject-publish`` is a fuse, not the control: it bounds a tenant's backlog in the broker when
  everything else fails, and the broker then refuses what does not fit (a quorum queue overshoots a little in a burst).

Pure: knows nothing of jobs, of Celery, or of how a queue is declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_LENGTH = 50_000  # messages that wait in one queue
DELIVERY_LIMIT = (
    20  # deliveries that end without an acknowledgement before a message is a dead letter (RabbitMQ 4's default)
)
SHAPE = 1  # to be raised with every change of the arguments below that is not a size
SLUG = re.compile(r"[a-z0-9\-_.]{1,100}")
LANE = re.compile(r"[a-z]{1,20}")
PREFIX = re.compile(r"[A-Za-z0-9\-_]{1,64}")
VERSION = re.compile(r"v\d+(-m\d+)?(-d\d+)?")
NAME = re.compile(
    rf"(?P<prefix>{PREFIX.pattern})\.(?P<slug>{SLUG.pattern})\.(?P<lane>{LANE.pattern})\.{VERSION.pattern}"
)

Argument = str | int
QUORUM: Mapping[str, Argument] = {"x-queue-type": "quorum"}


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where the messages of one lane go that a worker rejected, or that were delivered too often."""

    exchange: str  # durable, direct
    routing_key: str
    queue: str
    arguments: Mapping[str, Argument] = field(default_factory=lambda: QUORUM)


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A durable queue, bound to the default exchange only; ``dead_letters`` must exist before it is used."""

    name: str
    arguments: Mapping[str, Argument]
    dead_letters: DeadLetters | None = None


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The sizes of a deployment's queues; scheduler nodes and workers must read the same.

    Raises ``ValueError`` naming the field for a value that no broker would accept.
    """

    prefix: str = "fairbeat"
    max_length: int = MAX_LENGTH
    delivery_limit: int = DELIVERY_LIMIT
    _queues: dict[tuple[str, str], QueueSpec] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _must_match("prefix", self.prefix, PREFIX)
        for name in ("max_length", "delivery_limit"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)!r}: must be at least 1")

    @property
    def version(self) -> str:
        """The version of the arguments, as it stands in every queue's name."""
        length = f"-m{self.max_length}" if self.max_length != MAX_LENGTH else ""
        limit = f"-d{self.delivery_limit}" if self.delivery_limit != DELIVERY_LIMIT else ""
        return f"v{SHAPE}{length}{limit}"

    def queue_name(self, tenant_slug: str, lane: str) -> str:
        """``fairbeat.<tenant>.<lane>.v1``; at most 255 bytes, as AMQP asks (by the bounds of its parts)."""
        _must_match("tenant", tenant_slug, SLUG)
        _must_match("lane", lane, LANE)
        return f"{self.prefix}.{tenant_slug}.{lane}.{self.version}"

    def queue(self, tenant_slug: str, lane: str) -> QueueSpec:
        """The queue of a tenant's lane, with its dead letters. Asked for every message, so it is made once and kept."""
        known = self._queues.get((tenant_slug, lane))
        if known is None:
            dead = self.dead_letters(lane)
            known = QueueSpec(self.queue_name(tenant_slug, lane), self._arguments(dead), dead)
            self._queues[tenant_slug, lane] = known
        return known

    def dead_letters(self, lane: str) -> DeadLetters:
        """The dead-letter exchange and queue of a lane, shared by all tenants."""
        _must_match("lane", lane, LANE)
        exchange = f"{self.prefix}-dead"
        return DeadLetters(exchange, lane, f"{exchange}.{lane}.v{SHAPE}")

    def owner(self, queue: str) -> tuple[str, str] | None:
        """The tenant (its slug) and the lane of a queue of this prefix, of whatever version; None: it is no tenant's.

        >>> QueuePlan().owner("fairbeat.acme.eu.bulk.v1-m100")
        ('acme.eu', 'bulk')
        """
        found = NAME.fullmatch(queue)
        return (found["slug"], found["lane"]) if found and found["prefix"] == self.prefix else None

    def _arguments(self, dead: DeadLetters) -> dict[str, Argument]:
        return {
            **QUORUM,
            "x-delivery-limit": self.delivery_limit,
            "x-dead-letter-exchange": dead.exchange,
            "x-dead-letter-routing-key": dead.routing_key,
            "x-max-length": self.max_length,
            "x-overflow": "reject-publish",
        }


def _must_match(field_name: str, value: str, pattern: re.Pattern[str]) -> None:
    if not pattern.fullmatch(value):
        raise ValueError(f"{field_name} {value!r}: must match {pattern.pattern}")


DEFAULT = QueuePlan()


def queue_name(tenant_slug: str, lane: str) -> str:
    """The name of a tenant's queue under the default plan.

    >>> queue_name("acme", "bulk")
    'fairbeat.acme.bulk.v1'
    """
    return DEFAULT.queue_name(tenant_slug, lane)
