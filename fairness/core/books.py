"""What a node has to tell of a lane that it shares with others."""

from __future__ import annotations

from collections.abc import Hashable


class Books:
    """What its tenants were charged since that was told, in units of tags; and who has come since."""

    __slots__ = ("came", "untold")

    def __init__(self) -> None:
        self.untold: dict[Hashable, int] = {}
        self.came: set[Hashable] = set()

    def charge(self, tenant: Hashable, change: int) -> None:
        self.untold[tenant] = self.untold.get(tenant, 0) + change
