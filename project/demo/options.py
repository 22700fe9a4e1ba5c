"""What a person can ask of the demo, from the environment or the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from scheduling.core.errors import InvalidField

OWN_JOBS = Path(__file__).with_name("jobs.jsonl")
FASTEST = 1_000_000
LONGEST_S = 30 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``seconds``: real ones, counted from the start of the job clock; None: until Ctrl-C."""

    seconds: float | None = None
    speed: float = 1.0
    jobs: Path = OWN_JOBS


def read_options(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """An option goes before its variable; an empty variable counts as one that is not set. Raises InvalidField."""
    parser = argparse.ArgumentParser(prog="python -m project.demo", description="The scheduler, live.")
    parser.add_argument("--seconds", default=environ.get("SECONDS", ""), help="end by itself after so many seconds")
    parser.add_argument("--speed", default=environ.get("SPEED", ""), help="job seconds in a real second")
    parser.add_argument("--jobs", default=environ.get("JOBS", ""), help="a file of jobs, as import_jobs reads it")
    given = parser.parse_args(arguments)
    jobs = Path(given.jobs) if given.jobs else OWN_JOBS
    if not jobs.is_file():
        raise InvalidField("JOBS", given.jobs, "there is no such file")
    return Options(
        seconds=_number("SECONDS", given.seconds, up_to=LONGEST_S) if given.seconds else None,
        speed=_number("SPEED", given.speed, up_to=FASTEST) if given.speed else 1.0,
        jobs=jobs,
    )


def _number(name: str, text: str, *, up_to: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidField(name, text, "is not a number") from None
    if not isfinite(value) or not 0 < value <= up_to:
        raise InvalidField(name, text, f"is not above 0 and up to {up_to:,}")
    return value
