"""The log of runs, outside the ledger: what tasks say themselves of when they began and ended.

A line a moment, appended by one ``write`` so that those of many processes do not mix; moments are monotonic, which all
processes of one machine share. A killed run has no end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from uuid import UUID

VARIABLE = "FAIRBEAT_CHAOS_LOG"  # the file


@dataclass(slots=True)
class Run:
    """``asked_ns`` is before the ledger was asked for the lease, ``began_ns`` after it gave it."""

    fire: UUID
    fence: int
    holder: UUID
    asked_ns: int
    began_ns: int
    ended_ns: int | None = None


def write_began(fire: UUID, *, fence: int, holder: UUID, asked_ns: int) -> None:
    _append(f"began {fire} {fence} {holder} {asked_ns} {time.monotonic_ns()} {os.getpid()}")


def write_ended(holder: UUID) -> None:
    _append(f"ended {holder} {time.monotonic_ns()}")


def read(lines: Iterable[str]) -> list[Run]:
    """In the order in which they began. Raises ValueError for a line that is none of ours."""
    runs: dict[UUID, Run] = {}
    for line in lines:
        match line.split():
            case ["began", fire, fence, holder, asked_ns, began_ns, _pid]:
                run = Run(UUID(fire), int(fence), UUID(holder), int(asked_ns), int(began_ns))
                runs[run.holder] = run
            case ["ended", holder, ended_ns]:
                runs[UUID(holder)].ended_ns = int(ended_ns)
            case _:
                raise ValueError(f"no line of the log of runs: {line!r}")
    return list(runs.values())


def _append(line: str) -> None:
    os.write(_log(), f"{line}\n".encode())


@cache
def _log() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
