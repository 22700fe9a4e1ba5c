"""A limit of all nodes, when they cannot ask each other: each keeps to a part of its own, and the parts are the whole.

What does not divide evenly goes to the nodes that come first for this tenant by rendezvous hashing: a limit of 1 lives
on one node, that of another tenant on another, and stays there while that node does. All go by the same list of nodes.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b


def part_of(limit: int, *, of: str, node: str, nodes: Collection[str]) -> int:
    """How much of ``limit`` this node has; over all ``nodes`` these add up to it. ``of``: whose limit it is.

    Raises ValueError if ``node`` is not among ``nodes``.
    """
    if node not in nodes:
        raise ValueError(f"node {node!r}: is not among {sorted(nodes)}")
    each, left = divmod(limit, len(nodes))
    first = sorted(nodes, key=lambda name: _rank(of, name))[:left]
    return each + (node in first)


def rate_part(per_s: float, burst: int, *, of: str, node: str, nodes: Collection[str]) -> tuple[float, int]:
    """The rate and the burst of this node; (0.0, 0): it has none. Over all ``nodes`` each adds up to the whole."""
    part = part_of(burst, of=of, node=node, nodes=nodes)
    return per_s * part / burst, part


def _rank(of: str, node: str) -> bytes:
    return blake2b(f"{of}\0{node}".encode(), digest_size=8).digest()
