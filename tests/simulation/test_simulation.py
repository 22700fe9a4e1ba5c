"""Five hundred seeds of the simulation; and that it would find what it is there to find."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256

import pytest

from scheduling.testing.simulation.faults import Fault
from scheduling.testing.simulation.planted import Bug
from scheduling.testing.simulation.report import told
from scheduling.testing.simulation.run import Run
from scheduling.testing.simulation.world import Log

SEEDS, CHUNK = 500, 50
WITHIN = 300  # seeds in which a planted bug must be found
LOG_OF = """
from tests.simulation.test_simulation import log_of
print(log_of({seed}))
"""


def log_of(seed: int) -> str:
    """All that happened, in short."""
    log: Log = []
    Run(seed, log=log).play()
    return sha256("\n".join(log).encode()).hexdigest()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    for seed in range(first, first + CHUNK):
        result = Run(seed).play()
        assert not result.violations, told(result)


@pytest.mark.parametrize("bug", list(Bug))
def test_a_planted_bug_is_found(bug: Bug) -> None:
    assert any(Run(seed, bug=bug).play().violations for seed in range(WITHIN))


def test_every_fault_strikes_and_work_is_done_all_the_same() -> None:
    results = [Run(seed).play() for seed in range(60)]
    struck: Counter[Fault] = sum((result.struck for result in results), Counter())
    assert struck.keys() == set(Fault)
    assert sum(result.effects for result in results) > 800


def test_a_seed_is_the_whole_story() -> None:
    """Two runs of it are one, event for event; in another process, whose sets have another order, too."""
    elsewhere = subprocess.run(
        [sys.executable, "-c", LOG_OF.format(seed=3)],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert log_of(3) == log_of(3) == elsewhere.stdout.strip()
    assert log_of(3) != log_of(4)


def test_what_is_told_of_a_failure_repeats_it_and_shows_what_happened_last() -> None:
    result = next(
        result for result in (Run(seed, bug=Bug.EPOCH_UNCHECKED).play() for seed in range(WITHIN)) if result.violations
    )
    text = told(result, bug=Bug.EPOCH_UNCHECKED, tail=5)
    assert f"make sim SEEDS=1 SEED={result.seed}" in text
    assert result.violations[0] in text
    assert "otherwise" not in text
    assert "!!!" in text.splitlines()[-1]
