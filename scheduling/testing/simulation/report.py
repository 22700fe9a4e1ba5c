"""What is told of a run that went wrong: how to repeat it, and what happened last."""

from __future__ import annotations

from scheduling.testing.simulation.planted import Bug
from scheduling.testing.simulation.run import Result, Run
from scheduling.testing.simulation.world import Log

TAIL = 60  # lines of the log


def told(result: Result, *, bug: Bug | None = None, tail: int = TAIL) -> str:
    """The run is repeated, which its seed alone decides, and this time its log is kept."""
    log: Log = []
    again = Run(result.seed, bug=bug, log=log).play()
    lines = [
        f"seed {result.seed}: {len(result.violations)} violations; again: make sim SEEDS=1 SEED={result.seed}",
        *result.violations,
    ]
    if again.violations != result.violations:
        lines.append(f"(repeated, it went otherwise: {again.violations})")
    return "\n".join([*lines, f"the last of {len(log)} events, with these faults: {result.faults}", *log[-tail:]])
