"""The log of runs, outside the ledger: what tasks say themselves of when they began and ended.

A line a moment, appended by one ``write`` so that those of many processes do not mix; moments are monotonic, which all
processes of one machine share. A killed run has no end of its own: the next run of its fire looks whether the process
of the one before it is gone, and says so.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
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
    if fence > 1:
        _write_gone(fire)
    process = f"{os.getpid()}/{_born(os.getpid())}"
    _append(f"began {fire} {fence} {holder} {asked_ns} {time.monotonic_ns()} {process}")


def write_ended(holder: UUID) -> None:
    _append(f"ended {holder} {time.monotonic_ns()}")


def read(lines: Iterable[str]) -> list[Run]:
    """In the order in which they began. Raises ValueError for a line that is none of ours."""
    runs: dict[UUID, Run] = {}
    for line in lines:
        match line.split():
            case ["began", fire, fence, holder, asked_ns, began_ns, _process]:
                run = Run(UUID(fire), int(fence), UUID(holder), int(asked_ns), int(began_ns))
                runs[run.holder] = run
            case ["ended" | "gone", holder, ended_ns]:
                run = runs[UUID(holder)]
                run.ended_ns = int(ended_ns) if run.ended_ns is None else min(run.ended_ns, int(ended_ns))
            case _:
                raise ValueError(f"no line of the log of runs: {line!r}")
    return list(runs.values())


def _write_gone(fire: UUID) -> None:
    """Which of the fire's runs cannot go on, since their processes are gone."""
    began = re.compile(rf"^began {fire} \d+ (\S+) \d+ \d+ (\d+)/(\d+)$", re.MULTILINE)
    for holder, pid, born in began.findall(Path(os.environ[VARIABLE]).read_text()):
        if _born(int(pid)) != born:
            _append(f"gone {holder} {time.monotonic_ns()}")


def _born(pid: int) -> str:
    """When this process was started, in the kernel's ticks; empty where there is none that still runs."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return ""
    return "" if state in "ZX" else numbers[18]


def _append(line: str) -> None:
    os.write(_log(), f"{line}\n".encode())


@cache
def _log() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
