"""Limits and shares that nodes have in common, over Redis. Without its URL, each node has its part of the limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from fairness.core.admission import Limiter
from fairness.core.exchange import Exchange
from fairness.core.limits import LocalLimiter
from fairness.core.local_exchange import DividedExchange

Nodes = Callable[[], Collection[str]]


def limiter(url: str, *, prefix: str, node: str, nodes: Nodes) -> Limiter:
    """Raises ValueError for a URL that is none. ``nodes`` tells the names of all nodes that are alive."""
    if not url:
        return LocalLimiter(node=node, nodes=nodes, clock=time.monotonic)
    from fairness.limiting.redis_limiter import RedisLimiter

    return RedisLimiter(url, prefix=prefix, node=node, nodes=nodes)


def exchange(url: str, *, prefix: str, node: str, nodes: Nodes) -> Exchange:
    """Of this node, with all others of the same ``prefix``. Raises ValueError for a URL that is none."""
    if not url:
        return DividedExchange(node=node, nodes=nodes)
    from fairness.limiting.redis_exchange import RedisExchange

    return RedisExchange(url, prefix=prefix, node=node, nodes=nodes)
