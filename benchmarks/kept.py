"""The record of a benchmark: what its last line said, on what, by which command; a JSON file each.

``benchmarks/results/`` has those of the last full run, which the documentation quotes; a quick run writes elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FULL = Path("benchmarks/results")
QUICK = Path(".run/bench/results")


@dataclass(frozen=True, slots=True)
class Record:
    """``figures`` is None where it could not be measured; ``reason`` then says why. ``ours`` is what Fairbeat fired a
    second in the same run, where that was measured: machines differ, so nothing else is to be compared with it.
    """

    name: str
    command: str
    figures: dict[str, Any] | None
    reason: str = ""
    took_s: float = 0.0
    ours: float | None = None
    on: dict[str, Any] = field(default_factory=dict)  # hardware, versions, commit mode, commit and time

    def figure(self, name: str = "fires_per_s") -> float | None:
        """One of its figures, where there is such a number."""
        found = (self.figures or {}).get(name)
        return found if isinstance(found, int | float) else None


def write(record: Record, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{record.name}.json").write_text(json.dumps(asdict(record), indent=1) + "\n")


def read(folder: Path) -> dict[str, Record]:
    """By name."""
    records = [Record(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
    return {record.name: record for record in records}
