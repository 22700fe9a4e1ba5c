"""A fair queue's lanes, shared with other nodes: what this one has to tell, and what it takes over.

    charges, rows ──>  (what all nodes have in common)  ──> adopt

A tag is what the tenant was charged on all nodes, as told, and on top what this node has charged since it told last: so
an answer that is some time under way takes nothing back of what has happened meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import islice
from typing import TypeVar, cast

from fairness.core.books import Books
from fairness.core.branch import Branch
from fairness.core.exchange import Charge, Row
from fairness.core.node import UNIT, WEIGHT_UNIT, Flow
from fairness.core.turns import Turns

T = TypeVar("T")

COUNTED = 32  # keys of a tenant of which it is counted what waits


class AcrossNodes(Turns[T]):
    """Nothing is remembered of a lane before ``share`` is called for it. Its tenants go by their ids."""

    def share(self, lane: Hashable) -> None:
        """Keep books of this lane from now on, for others. Once is enough."""
        node = self._tree.reach((lane,))
        assert isinstance(node, Branch)
        node.is_kept = True
        if node.books is None:
            node.books = Books()

    def charges(self, lane: Hashable) -> dict[int, Charge]:
        """What was charged since the last call, by tenant; and who has come."""
        node = self._shared(lane)
        if node is None or node.books is None:
            return {}
        books, node.books = node.books, Books()
        for tenant in books.came:
            books.untold.setdefault(tenant, 0)
        return {
            cast("int", tenant): Charge(units / UNIT, tenant in books.came) for tenant, units in books.untold.items()
        }

    def rows(self, lane: Hashable, count: int = 32) -> list[Row]:
        """Of the tenants that may go, those with the least tags, least first."""
        node = self._shared(lane)
        if node is None:
            return []
        return [_row(child) for child in islice(node.ready_by_tag(), count) if isinstance(child, Branch)]

    def adopt(self, lane: Hashable, tags: Mapping[int, float], virtual_time: float) -> None:
        """What these tenants were charged in all, as far as it was told; those that are not here are passed by.

        Virtual time never goes back for it. Who has come since it was told does not start before it.
        """
        node = self._shared(lane)
        if node is None or node.books is None:
            return
        now = int(virtual_time * UNIT)
        node.virtual_time = max(node.virtual_time, now)
        books = node.books
        for tenant, told in tags.items():
            child = node.children.get(tenant)
            if child is not None:
                tag = int(told * UNIT)
                if tenant in books.came:
                    tag = max(tag, now)
                child.move_to(tag + books.untold.get(tenant, 0))

    def _shared(self, lane: Hashable) -> Branch[T] | None:
        node = self._tree.root.children.get(lane)
        return node if isinstance(node, Branch) else None


def _row(tenant: Branch[T]) -> Row:
    flows = [flow for flow in islice(tenant.seated(), COUNTED) if flow.is_ready and isinstance(flow, Flow)]
    oldest = flows[0].oldest if flows else None
    return Row(
        tenant_id=cast("int", tenant.name),
        tag=tenant.tag / UNIT,
        weight=tenant.weight / WEIGHT_UNIT,
        cost=1.0 if oldest is None else oldest.cost,
        waiting=max(1, sum(flow.size for flow in flows)),
        in_flight=tenant.running,
    )
