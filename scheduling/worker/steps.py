"""Named steps of a task: each happens at most once for its fire, whatever becomes of the attempts.

::

    (none) -begin-> begun -its function returned-> done: later attempts are given its result
                      │
                      ├── it raised what ``undone`` names ─▶ (none): nothing happened, and it may be done again
                      └── it raised anything else, or its process died ─▶ in doubt: ``in_doubt()``, or StepInDoubt

Invariants: the note that a step begins is committed before its function is called, and the note that it is done before
its result is given back; a step is never done twice because nobody knew whether it was done. Does not do: know that
better than a function that raised (a time-out of a payment is a payment in doubt); undo anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from scheduling.core.errors import InvalidField
from scheduling.core.payload import checked_json
from scheduling.failpoints import Point, failpoint
from scheduling.store.ledger_port import Acquired, Ledger
from scheduling.worker.errors import StepInDoubt, StepRefused
from scheduling.worker.patience import patiently
from scheduling.worker.transactions import is_in_transaction

NAME_LIMIT = 200  # characters
RESULT_LIMIT = 64 * 1024  # characters of its JSON, which is ASCII

T = TypeVar("T")
Undone = type[Exception] | tuple[type[Exception], ...]


class Steps:
    """Those of one attempt. Used by one thread."""

    def __init__(self, ledger: Ledger, acquired: Acquired, *, database: str, patience_s: float) -> None:
        self._ledger = ledger
        self._acquired = acquired
        self._database = database
        self._patience_s = patience_s
        self._doubtful: set[str] = set()  # begun by this attempt: the ledger would call them new again

    def run(self, name: str, function: Callable[[], Any], *, in_doubt: Callable[[], Any] | None, undone: Undone) -> Any:
        """Raises LeaseLost, StepInDoubt, StepRefused, InvalidField, and what the function raises."""
        self._refuse(name)
        known = self._patiently(name, lambda: self._ledger.begin_step(self._acquired, name))
        if known.is_done:
            return known.result
        if not known.is_new or name in self._doubtful:
            if in_doubt is None:
                raise StepInDoubt(
                    f"step {name!r} of fire {self._acquired.delivery.fire_id} was begun and may have happened; "
                    "find out, or give step() an in_doubt function that does"
                )
            function = in_doubt
        self._doubtful.add(name)
        failpoint(Point.STEP_BEGUN)
        try:
            result = function()
        except undone:
            self._patiently(name, lambda: self._ledger.undo_step(self._acquired, name))
            self._doubtful.discard(name)
            raise
        failpoint(Point.STEP_CALLED)
        value = _as_json(name, result)
        self._patiently(name, lambda: self._ledger.finish_step(self._acquired, name, value))
        self._doubtful.discard(name)
        failpoint(Point.STEP_DONE)
        return value

    def _patiently(self, name: str, note: Callable[[], T]) -> T:
        """What is known now must not be in doubt because the database was away for a moment."""
        return patiently(note, f"step {name!r} of fire {self._acquired.delivery.fire_id}", for_s=self._patience_s)

    def _refuse(self, name: str) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT or "\x00" in name:
            raise InvalidField("name", name, f"is no name of a step: a text of 1 to {NAME_LIMIT} characters")
        if is_in_transaction(self._database):
            raise StepRefused(
                f"step {name!r} of fire {self._acquired.delivery.fire_id} was used inside a transaction, which could "
                "take back the note that it happened; leave the atomic() or commit() block first"
            )


def _as_json(name: str, result: Any) -> Any:
    """The result as a later attempt will have it, so that the first one sees no other."""
    field = f"result of step {name!r}"
    text, longer = checked_json(field, result)
    if len(text) + longer > RESULT_LIMIT:
        raise InvalidField(field, "…", f"is longer than {RESULT_LIMIT // 1024} KB of JSON; keep it, and give its key")
    return json.loads(text)
