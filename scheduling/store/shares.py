"""Reads a limited number of rows of many groups, an equal share of each, so that none hides the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from psycopg.rows import TupleRow

G = TypeVar("G", bound=Hashable)


def read_in_shares(
    read: Callable[[Sequence[G], int], list[TupleRow]],
    groups: Sequence[G],
    limit: int,
    *,
    group_of: Callable[[TupleRow], G],
) -> tuple[list[TupleRow], set[G]]:
    """Rows of ``read(groups, share)``, which gives at most ``share`` of each group; and the groups that may have more.

    What the groups with few rows leave of ``limit`` goes to those that have more: these are read again with a larger
    share, until they are exhausted or there are ``limit`` rows (and at most one more for each group).
    """
    kept: list[TupleRow] = []
    while groups:
        share = 1 + (limit - len(kept)) // len(groups)
        rows = read(groups, share)
        counts = Counter(map(group_of, rows))
        if len(kept) + len(rows) >= limit:
            return kept + rows, {group for group in groups if counts[group] >= share}
        kept += [row for row in rows if counts[group_of(row)] < share]
        groups = [group for group in groups if counts[group] >= share]
    return kept, set()
