"""What was published, looked at by what a test expects of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.core.errors import InvalidField
from scheduling.core.message import canonical_json
from scheduling.testing.broker import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Of a fire's message; None: whatever it is."""

    task: Any = None  # a Celery task, or the name of one
    args: Iterable[Any] | None = None
    kwargs: dict[str, Any] | None = None
    tenant: str | None = None

    def assert_among(self, published: Sequence[Message], *, count: int | None) -> list[Message]:
        """The messages of those that are so, the last of each fire: ``count`` of them, or at least one.

        Raises AssertionError.
        """
        said = self._said()
        found = {
            message.fire_id: message
            for message in published
            if all(getattr(message, name) == value for name, value in said.items())
        }
        if len(found) == count or (found and count is None):
            return list(found.values())
        asked = ", ".join(f"{name}={value!r}" for name, value in said.items()) or "any task"
        wanted = "at least one" if count is None else count
        others = "\n".join(f"  {message}" for message in published) or "  nothing"
        raise AssertionError(f"{len(found)} fires of {asked} were published, not {wanted}. Published was:\n{others}")

    def _said(self) -> dict[str, Any]:
        wanted = {
            "task": None if self.task is None else task_name(self.task),
            "args": None if self.args is None else _as_sent(list(self.args)),
            "kwargs": None if self.kwargs is None else _as_sent(self.kwargs),
            "tenant": self.tenant,
        }
        return {name: value for name, value in wanted.items() if value is not None}


def task_name(task: Any) -> str:
    """Of a Celery task, or of its name. Raises InvalidField."""
    name = task if isinstance(task, str) else getattr(task, "name", None)
    if not isinstance(name, str):
        raise InvalidField("task", task, "is neither a Celery task nor the name of one")
    return name


def _as_sent(value: Any) -> Any:
    """Tuples are lists in a message."""
    return json.loads(canonical_json(value))
