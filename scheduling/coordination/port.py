"""The port that every coordinator implements."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a renewal says. Times are monotonic seconds."""

    lease_until: float  # counted from before the renewing call
    mine: frozenset[int]  # shards this node should own: to be taken over, if it does not yet
    leaving: frozenset[int]  # shards it owns that another should: to be drained and released
    look_at: float = inf  # another member's lease runs out then, unless it is renewed: renew by then to see it


class Coordinator(Protocol):
    """Raises StoreUnavailable where it cannot be reached; the node then lives on the lease that it has."""

    def join(self) -> None:
        """Become a member. A node of the same id that died is replaced."""

    def renew(self) -> Assignment:
        """Extend the lease, and say which shards to own. A shard whose living owner is another node is not in
        ``mine``.
        """

    def watch(self, on_change: Callable[[], None]) -> None:
        """From now on call this, from a thread of the coordinator, when a renewal would say something new: a node has
        joined or left, or shards are free. A hint: renewals find the same, later. May come before ``join``; ends with
        ``leave``.
        """

    def release(self, shards: Collection[int]) -> None:
        """These shards were drained: others may have them."""

    def leave(self) -> None:
        """Stop being a member; whatever is still owned is free at once."""
