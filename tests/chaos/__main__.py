"""`python -m tests.chaos [--seconds N] [--seed S] [--only 9,16]`: faults on real services, the run's own.

An error is one sentence on stderr, and status 2. The first Ctrl-C or SIGTERM ends the run and all that it started;
while that goes on, further ones are ignored.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import django

from project.environment import lock
from scheduling.core.errors import FairbeatError, InvalidField
from tests.chaos.services import Services, started
from tests.chaos.titles import TITLES
from tests.processes import ROOT

RUN_DIR = ROOT / ".run" / "chaos"
SECONDS = 180.0  # all of them are used then
SHORTEST_S = 15.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TABLE_IN = ROOT / "docs" / "reliability.md"


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit status: 0, 1 where something was lost or doubled, 2 for an error."""
    for number in SIGNALS:
        signal.signal(number, _end)
    try:
        seconds, seed, only, is_reporting = _options(arguments, environ)
        run_dir = Path(environ.get("FAIRBEAT_RUN_DIR") or RUN_DIR)
        with lock.held(run_dir), started(run_dir.resolve()) as services:
            table_in = TABLE_IN if is_reporting else None
            return _play(services, seconds=seconds, seed=seed, only=only, run_dir=run_dir.resolve(), table_in=table_in)
    except FairbeatError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _play(
    services: Services, *, seconds: float, seed: int, only: Sequence[str], run_dir: Path, table_in: Path | None
) -> int:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="tests.chaos.settings",
        DATABASE_URL=services.postgres.url,
        AMQP_URL=services.rabbitmq.url,
        REDIS_URL=services.redis.url,
        CELERY_BROKER_URL="",
        FAIRBEAT_COORDINATOR="etcd",
    )
    django.setup()
    from tests.chaos.run import play  # its models need what was just set

    sys.stdout.write(f"seed {seed}\n")
    return play(services, seconds=seconds, seed=seed, only=only, run_dir=run_dir, table_in=table_in)


def _options(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[float, int, list[str], bool]:
    """Seconds, seed, the scenarios (none: all), and whether the table of the documentation is to be written anew.

    Raises InvalidField.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Faults on real services, under load.")
    parser.add_argument("--seconds", default=environ.get("SECONDS") or str(SECONDS))
    parser.add_argument("--seed", default=environ.get("SEED") or str(random.randrange(1_000_000)))
    parser.add_argument("--only", default=environ.get("ONLY") or "", help="numbers of scenarios, joined by commas")
    parser.add_argument("--report", action="store_true", default=environ.get("REPORT") == "1")
    given = parser.parse_args(arguments)
    try:
        seconds = float(given.seconds)
    except ValueError:
        raise InvalidField("SECONDS", given.seconds, "is not a number") from None
    if not SHORTEST_S <= seconds <= 86_400:
        raise InvalidField("SECONDS", given.seconds, f"is not from {SHORTEST_S:g} to 86,400: a fault takes up to 12 s")
    if not given.seed.isdigit():
        raise InvalidField("SEED", given.seed, "is not a whole number from 0 on")
    only = [number for number in given.only.split(",") if number]
    if unknown := set(only) - TITLES.keys():
        raise InvalidField("ONLY", given.only, f"there is no scenario {min(unknown)}; there are {', '.join(TITLES)}")
    return seconds, int(given.seed), only, given.report


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    for ignored in SIGNALS:
        signal.signal(ignored, signal.SIG_IGN)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
