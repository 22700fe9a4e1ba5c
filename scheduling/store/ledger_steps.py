"""Steps in the ledger: what a fire does at most once, whatever becomes of its attempts.

::

    (none) -begin-> begun by a fence -finish-> done with its result
                        └──undo──▶ (none)

Invariants: who writes holds the fire, by a lock on its row until the note is committed, so an attempt that another one
has followed begins nothing. Does not do: know whether a step that is begun has happened; nobody does, until the attempt
says so.
"""

from __future__ import annotations

import json
from typing import Any

from psycopg.types.json import Jsonb

from scheduling.core.errors import InvalidField
from scheduling.store.ledger_port import Delivery, StepState
from scheduling.store.ledger_session import LedgerSession
from scheduling.store.ledger_values import lost, named


def begin_step(session: LedgerSession, delivery: Delivery, name: str) -> StepState:
    """As the port says."""
    row = session.one("begin_step", named(delivery) | {"name": name})
    if row is None:
        raise lost(delivery)
    fence, is_done, result = row
    return StepState(
        is_new=fence == delivery.fence and not is_done,
        is_done=is_done,
        result=None if result is None else json.loads(result),
    )


def finish_step(session: LedgerSession, delivery: Delivery, name: str, result: Any) -> None:
    """As the port says. Raises InvalidField for a step that nobody began."""
    row = session.one("finish_step", named(delivery) | {"name": name, "result": Jsonb(result)})
    if row is None:
        raise lost(delivery)
    if not row[0]:
        raise InvalidField("step", name, f"was not begun by fire {delivery.fire_id}")


def undo_step(session: LedgerSession, delivery: Delivery, name: str) -> None:
    """As the port says."""
    if session.one("undo_step", named(delivery) | {"name": name}) is None:
        raise lost(delivery)
