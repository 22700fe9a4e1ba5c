"""Which node should own which shard: weighted rendezvous hashing.

Every member draws a waiting time for every shard, and the shortest wins. The draw is a hash of (shard, member) made
into a number u in (0, 1], and the time is ``-ln(u) / weight``: exponential with the weight as its rate, so that each
member wins a share of the shards that is its weight over the sum (the logarithmic method; Schindelhauer and Schomaker,
"Weighted distributed hash tables", 2005).

* A draw depends on nothing but its shard and its member. So a member that leaves moves its own shards only, one that
  joins only takes, and all nodes come to the same answer without a word, given the same members.
* Shares are those of a lottery: of 64 shards, four equal members get 16 ± 3.5 each, not 16. Evenness beyond that would
  cost movement.
* Shards may be drawn for in groups (``shard % groups``), which then move as one. With a single group one member owns
  everything and the others stand by.

It says who *should* own a shard. Who does is decided by the epoch in Postgres: two nodes with different lists of
members may disagree for a while, and nothing breaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from math import isfinite, log

from scheduling.core.errors import InvalidField


def assign(shards: int, members: Mapping[str, float], *, groups: int | None = None) -> dict[str, frozenset[int]]:
    """The shards, of 0 to ``shards - 1``, of each member; ``members`` gives their weights, in any unit. Without
    ``groups`` each shard is drawn for by itself.

    Every member is in the answer, and every shard in exactly one of its sets (none without members). Raises
    InvalidField for a negative number of shards, for groups below 1, and for a weight that is not a finite number above
    0 (a node that drains is left out instead).
    """
    if shards < 0:
        raise InvalidField("shards", shards, "is negative")
    if groups is not None and groups < 1:
        raise InvalidField("groups", groups, "is below 1")
    for member, weight in members.items():
        if not (isfinite(weight) and weight > 0):
            raise InvalidField(f"weight of {member}", weight, "is not a finite number above 0")
    owned: dict[str, set[int]] = {member: set() for member in members}
    groups = shards if groups is None else min(groups, shards)
    for group in range(groups if members else 0):
        winner = min(members, key=lambda member: (_wait(group, member, members[member]), member))
        owned[winner].update(range(group, shards, groups))
    return {member: frozenset(mine) for member, mine in owned.items()}


def _wait(group: int, member: str, weight: float) -> float:
    """The waiting time that a member draws for a group; by blake2b, since ``hash`` differs from process to process."""
    digest = blake2b(b"%d/%b" % (group, member.encode()), digest_size=8).digest()
    return -log((int.from_bytes(digest) + 1) / 2**64) / weight
