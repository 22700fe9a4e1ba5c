"""Where a message came from: its queue, and so its lane and tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairness.queues import QueuePlan

KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Source:
    """``lane`` is empty for a queue that is none of the tenants'; ``tenant`` where one queue is many's, too."""

    queue: str
    lane: str
    tenant: str


class Sources:
    """Of one connection's messages. ``tenant_header``: where a message names its tenant."""

    def __init__(self, tenant_header: str = "") -> None:
        self._tenant_header = tenant_header
        self._plan = QueuePlan()
        self._tags: dict[str, Source] = {}
        self._names: dict[str, Source] = {}
        self._task_consumer: Any = None

    def connected(self, task_consumer: Any, plan: QueuePlan) -> None:
        self._plan, self._task_consumer = plan, task_consumer
        self._tags.clear()
        self._names.clear()

    def of(self, message: Any) -> Source:
        """By the consumer that it was delivered to; else by what it was addressed to."""
        info = message.delivery_info or {}
        tag = info.get("consumer_tag") or ""
        if tag and tag not in self._tags:
            if len(self._tags) > KEPT:
                self._tags.clear()
            # Tags of consumers that are no more stay: their last messages may be on the way.
            for name, known in self._task_consumer._active_tags.items():
                self._tags[known] = self.named(name)
        return self._tags.get(tag) or self.named(str(info.get("routing_key") or ""))

    def tenant(self, message: Any, source: Source) -> str:
        """Whom it names, else whose queue it came through; empty: nobody's."""
        named = (message.headers or {}).get(self._tenant_header) if self._tenant_header else None
        return named if isinstance(named, str) and named else source.tenant

    def named(self, queue: str) -> Source:
        known = self._names.get(queue)
        if known is None:
            owner = self._plan.owner(queue)
            known = Source(queue, self._plan.lane(queue) or "", owner[0] if owner else "")
            if len(self._names) < KEPT:
                self._names[queue] = known
        return known
