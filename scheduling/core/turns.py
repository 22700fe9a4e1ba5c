"""Fair turns: beside one tenant's flood, the others are still seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
_NOTHING: Any = object()
NO_BOUNDS: Mapping[Any, int] = {}


def left_out(items: Sequence[T], kept: Sequence[T], *, of: Callable[[T], K]) -> set[K]:
    """To which groups (``of``) those of the items belong that were not kept."""
    if len(kept) == len(items):
        return set()
    rest = Counter(map(of, items))
    rest.subtract(map(of, kept))
    return {group for group, count in rest.items() if count > 0}


def in_turns(
    items: Sequence[T], limit: int, *, of: Callable[[T], K], at: Callable[[T], Any], most: Mapping[K, int] = NO_BOUNDS
) -> list[T]:
    """At most ``limit`` items: the earliest (``at``) of each tenant (``of``), then the second of each, and so on; of
    these tenants at most so many.
    """
    if len(items) <= limit and not most:
        return list(items)
    by_tenant: dict[K, list[T]] = defaultdict(list)
    for item in sorted(items, key=at):
        by_tenant[of(item)].append(item)
    turns = zip_longest(*(found[: most.get(tenant)] for tenant, found in by_tenant.items()), fillvalue=_NOTHING)
    return list(islice((item for turn in turns for item in turn if item is not _NOTHING), limit))
