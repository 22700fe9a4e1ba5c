"""Which names are those of tasks: told by whoever knows tasks, since nothing in ``fairness`` does."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fairness.models import Tenant

Source = Callable[[Tenant, Collection[str]], Collection[str]]  # a tenant, and names: those of them that it may run
_sources: list[Source] = []


def knows_tasks(source: Source) -> Source:
    """A decorator: asks this one, too."""
    _sources.append(source)
    return source


def unknown_tasks(tenant: Tenant, names: Collection[str]) -> list[str]:
    """Those of these names that nobody knows, in order; none where nobody can be asked."""
    left = set(names)
    for source in _sources:
        left -= set(source(tenant, left)) if left else set()
    return sorted(left) if _sources else []
