"""What may hold a tenant, a lane or a task back: the port through which a fair queue asks its limits.

All the gates on the way are asked before any is entered, so a refusal spends nothing. A gate that is closed names the
time at which to ask again; until then its tenant costs nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class Gate(Protocol):
    """Compared by identity: what shares a limit shares the gate."""

    @property
    def reason(self) -> str:
        """Why something waits that this gate refused: one or two words."""

    def opens_at(self, now: float, /) -> float:
        """At or before ``now``: it is open. Else when to ask again; ``inf``: when somebody has left."""

    def enter(self, member: Hashable, now: float, /) -> None:
        """``member`` goes through; the gate was open at ``now``."""

    def leave(self, member: Hashable, /) -> bool:
        """``member`` has finished; true if another may enter for that."""

    def undo(self, member: Hashable, /) -> None:
        """``member`` was handed back without having started: as if it had never entered."""
