"""Tenant and lane → the broker's queues: their names and the arguments with which they are declared.

A tenant's lane has a queue of its own, or one of the two shared ones that the tenant's name picks by hash: which of
them is in use, ``queue_map`` knows.

Invariants:

- Declaring a queue anew with other arguments is refused by the broker, so whatever the arguments depend on is part of
  the name: ``v1`` is the shape below with the default sizes, ``v1-m100`` the same with ``max_length=100``. A changed
  setting therefore makes new queues beside the old ones, which drain; it never ends in a refusal.
- Names cannot collide: lane and version hold no dot, so a name reads from its right end, whatever dots a tenant's
  slug has; dead-letter queues (``fairbeat-dead.``) and shared ones (``fairbeat-shared.``) start with other prefixes
  than tenants' queues (``fairbeat.``).
- How many queues share a lane is part of a shared queue's name (``3-of-16``), and so is what a tenant's two are: a
  changed number makes new ones beside the old, and whose a message in an old one may be is still known.
- ``max_length`` with ``reject-publish`` is a fuse, not the control: it bounds a tenant's backlog in the broker when
  everything else fails, and the broker then refuses what does not fit (a quorum queue overshoots a little in a burst).

Pure: knows nothing of jobs, of Celery, or of how a queue is declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

MAX_LENGTH = 50_000  # messages that wait in one queue
DELIVERY_LIMIT = (
    20  # deliveries that end without an acknowledgement before a message is a dead letter (RabbitMQ 4's default)
)
SHAPE = 1  # to be raised with every change of the arguments below that is not a size
SLUG = re.compile(r"[a-z0-9\-_.]{1,100}")
LANE = re.compile(r"[a-z]{1,20}")
PREFIX = re.compile(r"[A-Za-z0-9\-_]{1,64}")
VERSION = re.compile(r"v\d{1,9}(-m(?P<length>\d{1,18}))?(-d(?P<limit>\d{1,9}))?", re.ASCII)
NAME = re.compile(
    rf"(?P<prefix>{PREFIX.pattern})\.(?P<slug>{SLUG.pattern})\.(?P<lane>{LANE.pattern})\.{VERSION.pattern}", re.ASCII
)
BUCKET = re.compile(r"(?P<number>0|[1-9]\d{0,5})-of-(?P<count>[1-9]\d{0,5})", re.ASCII)
SHARED = "-shared"  # behind the prefix, of queues that many tenants share

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
    _queues: dict[str | tuple[str, str], QueueSpec] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        """The queue of a tenant's lane, with its dead letters. Asked again and again, so it is made once and kept."""
        known = self._queues.get((tenant_slug, lane))
        if known is None:
            known = self._queues[tenant_slug, lane] = self._spec(self.queue_name(tenant_slug, lane), lane)
        return known

    def shared_name(self, number: int, count: int, lane: str) -> str:
        """``fairbeat-shared.3-of-16.bulk.v1``: number 3 of 16, counted from 0."""
        _must_match("lane", lane, LANE)
        return f"{self.prefix}{SHARED}.{number}-of-{count}.{lane}.{self.version}"

    def shared(self, tenant_slug: str, lane: str, *, count: int) -> tuple[QueueSpec, QueueSpec]:
        """The two of ``count`` shared queues that a tenant without one of its own may use; the same one twice if there
        is but one.
        """
        first, second = choices(tenant_slug, count)
        return self.shared_queue(first, lane, count=count), self.shared_queue(second, lane, count=count)

    def shared_queue(self, number: int, lane: str, *, count: int) -> QueueSpec:
        """One of ``count`` shared queues of a lane, with its dead letters."""
        return self._spec(self.shared_name(number, count, lane), lane)

    def spec(self, name: str) -> QueueSpec | None:
        """What a queue of this prefix was declared with, whatever its sizes; None: it is none of ours, or of a shape
        that another release makes.

        >>> spec = QueuePlan().spec("fairbeat.acme.bulk.v1-m100")
        >>> spec.arguments["x-max-length"], spec.arguments["x-delivery-limit"]
        (100, 20)
        """
        found = self._found(name)
        if found is None:
            return None
        length, limit = int(found["length"] or MAX_LENGTH), int(found["limit"] or DELIVERY_LIMIT)
        if not length or not limit:
            return None
        is_now = (length, limit) == (self.max_length, self.delivery_limit)
        sizes = self if is_now else replace(self, max_length=length, delivery_limit=limit)
        return sizes._spec(name, found["lane"]) if name.endswith(f".{sizes.version}") else None

    def dead_letters(self, lane: str) -> DeadLetters:
        """The dead-letter exchange and queue of a lane, shared by all tenants."""
        _must_match("lane", lane, LANE)
        exchange = f"{self.prefix}-dead"
        return DeadLetters(exchange, lane, f"{exchange}.{lane}.v{SHAPE}")

    def owner(self, queue: str) -> tuple[str, str] | None:
        """The tenant (its slug) and the lane of a tenant's own queue, of whatever version; None: it is no tenant's.

        >>> QueuePlan().owner("fairbeat.acme.eu.bulk.v1-m100")
        ('acme.eu', 'bulk')
        """
        found = NAME.fullmatch(queue)
        return (found["slug"], found["lane"]) if found and found["prefix"] == self.prefix else None

    def lane(self, queue: str) -> str | None:
        """The lane of a tenant's own queue or of a shared one; None: it is none of ours, or holds dead letters."""
        found = self._found(queue)
        return found["lane"] if found else None

    def owner_of(self, queue: str, named: str | None) -> str | None:
        """Whose a message is that came through ``queue`` and says that it is the tenant ``named``'s: the owner of the
        queue; of a shared one ``named``, if it is one that may use it. None: nobody's.

        >>> QueuePlan().owner_of("fairbeat.acme.bulk.v1", "other")
        'acme'
        >>> QueuePlan().owner_of("fairbeat-shared.0-of-1.bulk.v1", "other")
        'other'
        """
        found = self._found(queue)
        if found is None:
            return None
        if found["prefix"] == self.prefix:
            return found["slug"]
        if named is None or not SLUG.fullmatch(named):
            return None
        bucket = BUCKET.fullmatch(found["slug"])
        return named if bucket and int(bucket["number"]) in choices(named, int(bucket["count"])) else None

    def _found(self, queue: str) -> re.Match[str] | None:
        """The parts of the name of a tenant's queue or a shared one."""
        found = NAME.fullmatch(queue)
        if found is None:
            return None
        if found["prefix"] == self.prefix:
            return found
        bucket = BUCKET.fullmatch(found["slug"]) if found["prefix"] == self.prefix + SHARED else None
        return found if bucket and int(bucket["number"]) < int(bucket["count"]) else None

    def _spec(self, name: str, lane: str) -> QueueSpec:
        known = self._queues.get(name)
        if known is None:
            dead = self.dead_letters(lane)
            known = self._queues[name] = QueueSpec(name, self._arguments(dead), dead)
        return known

    def _arguments(self, dead: DeadLetters) -> dict[str, Argument]:
        return {
            **QUORUM,
            "x-delivery-limit": self.delivery_limit,
            "x-dead-letter-exchange": dead.exchange,
            "x-dead-letter-routing-key": dead.routing_key,
            "x-max-length": self.max_length,
            "x-overflow": "reject-publish",
        }


def choices(tenant_slug: str, count: int) -> tuple[int, int]:
    """The numbers of the shared queues of a tenant among ``count``: the same on every node, in every release."""
    digest = int.from_bytes(blake2b(tenant_slug.encode(), digest_size=16).digest(), "big")
    first = digest % count
    return first, (first + 1 + digest // count % (count - 1)) % count if count > 1 else first


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
