"""``python -m scheduling.testing.simulation [--seeds n] [--seed first]``: many runs, on all cores."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain

from scheduling.testing.simulation.floods import Flooded, Shared
from scheduling.testing.simulation.report import told
from scheduling.testing.simulation.run import Result, Run

CHUNK = 50  # seeds that a process takes at once
FLOODS = 50  # seeds for one in which all tenants flood
PROGRESS_S = 5.0

say = partial(print, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Progress, each failure with its log, and one line of JSON last. Exit status 1: there was a failure."""
    parser = argparse.ArgumentParser(prog="make sim", description="The deterministic simulation, seed by seed.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    asked = parser.parse_args(arguments)
    began = told_at = time.monotonic()
    done: list[Result] = []
    failed: list[int] = []
    for result in results(asked.seed, asked.seeds):
        done.append(result)
        if result.violations:
            failed.append(result.seed)
            say(told(result))
        if time.monotonic() > told_at + PROGRESS_S:
            told_at = time.monotonic()
            say(f"{len(done)} of {asked.seeds} seeds, {len(failed)} failed")
    for shared in floods(asked.seed, max(1, asked.seeds // FLOODS)):
        if shared.problems:
            failed.append(shared.seed)
            say(f"floods of seed {shared.seed}: {'; '.join(shared.problems)}")
    say(
        json.dumps(
            {
                "seeds": len(done),
                "first": asked.seed,
                "failed": failed,
                "fires": sum(result.fires for result in done),
                "effects": sum(result.effects for result in done),
                "faults": sum(result.struck.total() for result in done),
                "virtual_s": round(sum(result.lasted_s for result in done)),
                "real_s": round(time.monotonic() - began, 1),
            }
        )
    )
    return 1 if failed else 0


def results(first: int, count: int) -> Iterator[Result]:
    """In the order of their seeds."""
    end = first + count
    chunks = [range(start, min(start + CHUNK, end)) for start in range(first, end, CHUNK)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from chain.from_iterable(pool.map(played, chunks))


def floods(first: int, count: int) -> Iterator[Shared]:
    """Shares of tenants that flood, of seeds of their own."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(flooded, range(first, first + count))


def flooded(seed: int) -> Shared:
    return Flooded(seed).play()


def played(seeds: Sequence[int]) -> list[Result]:
    return [Run(seed).play() for seed in seeds]


if __name__ == "__main__":
    sys.exit(main())
