"""How a worker shares its slots: what `SCHEDULING` says of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sharing:
    """``is_fair``: the fair door, prefetch by traffic, long tasks one by one, and reports. ``by_count``: by how many
    tasks it is shared, and not by how long they take.
    """

    is_fair: bool = True
    by_count: bool = False
