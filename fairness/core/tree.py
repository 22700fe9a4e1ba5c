"""A fair queue's tree as it grows and shrinks, by lane, tenant and key.

Invariant: nothing is kept of whoever is idle and owes nothing, unless it was given a weight or gates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from fairness.core.branch import Branch
from fairness.core.node import Flow, Node

T = TypeVar("T")

FlowPath = tuple[Hashable, Hashable, Hashable]  # lane, tenant, key
Path = tuple[Hashable, ...]  # of a lane, of a tenant in a lane, or of a flow


class Tree(Generic[T]):
    """``flows`` has every flow by its path."""

    def __init__(self) -> None:
        self.root: Branch[T] = Branch("", None)
        self.flows: dict[FlowPath, Flow[T]] = {}

    def find(self, path: Path) -> Node[T] | None:
        """The node there; the root for an empty path."""
        node: Node[T] | None = self.root
        for name in path:
            if not isinstance(node, Branch):
                return None
            node = node.children.get(name)
        return node

    def reach(self, path: Path) -> Node[T]:
        """The node there, made if need be. Raises ValueError for a path that no lane, tenant or flow can have."""
        if len(path) not in (1, 2, 3):
            raise ValueError(f"path {path!r}: must be a lane, a lane and a tenant, or these and a key")
        branch = self.root
        for name in path[:2]:
            branch = self._branch(branch, name)
        return self.flow((path[0], path[1], path[2])) if len(path) == 3 else branch

    def flow(self, path: FlowPath) -> Flow[T]:
        """The flow there, made if need be."""
        found = self.flows.get(path)
        if found is None:
            lane, tenant, key = path
            parent = self._branch(self._branch(self.root, lane), tenant)
            found = self.flows[path] = parent.children[key] = Flow(key, parent)
        return found

    def forget_if_idle(self, node: Node[T]) -> None:
        """Keep no record of it if it holds nothing, and virtual time has passed its tag; nor of its parents."""
        while node.is_forgettable:
            parent = node.parent
            self.remove(node)
            node = parent

    def rest(self, branch: Branch[T]) -> None:
        """Nothing in it is ready or under way: everybody in it starts anew."""
        for child in branch.clear_seats():
            self.forget_if_idle(child)
        self.forget_if_idle(branch)

    def remove(self, node: Node[T]) -> None:
        """Strike this node off the tree; what is below it goes with it."""
        for each in below(node):
            each.is_gone = True
            if isinstance(each, Flow):
                lane, tenant, key = each.path
                del self.flows[lane, tenant, key]
        node.make_unready()
        node.parent.take_seat(node)
        del node.parent.children[node.name]
        if not self.flows:
            self.flows.clear()  # which gives up the memory that its largest size took

    def _branch(self, parent: Branch[T], name: Hashable) -> Branch[T]:
        found = parent.children.get(name)
        if not isinstance(found, Branch):
            found = parent.children[name] = Branch(name, parent)
        return found


def below(node: Node[T]) -> Iterator[Node[T]]:
    """It and all beneath it."""
    yield node
    if isinstance(node, Branch):
        for child in node.children.values():
            yield from below(child)
