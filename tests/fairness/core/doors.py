"""A worker's fair door, on a clock that the test moves."""

from __future__ import annotations

from typing import Any

from fairness.core.door import Door

LANES = {"transactional": 9.0}


def door(slots: int = 1, **options: Any) -> Door[str]:
    return Door(slots, lanes=LANES, now=0.0, **options)


def go(door: Door[str], now: float = 0.0) -> Any:
    """The ticket whose turn it is; there must be one."""
    ticket = door.next(now)
    assert ticket is not None
    return ticket


def offer(door: Door[str], tenant: str, *names: str, lane: str = "bulk", task: str = "t") -> None:
    for name in names:
        door.offer(name, (lane, tenant, task), f"{tenant}.{lane}")


def drain(door: Door[str], now: float = 0.0, *, each_s: float = 1.0, most: int = 10_000) -> list[str]:
    """Run what waits one after the other, each for so long."""
    ran: list[str] = []
    while len(ran) < most and (ticket := door.next(now)) is not None:
        now += each_s
        ran.append(str(ticket.item.request))
        door.ended(ticket, now)
    return ran
