"""How many next occurrences a second one core computes, with cold and with warm caches.

    python -m benchmarks.recurrence [JOBS.jsonl] [--days 14]

The mix: every distinct cron expression and interval of a file of jobs (as ``import_jobs`` reads it), each expression
in ten zones, each schedule walked over the same days round a change of many clocks. *Cold*: nothing parsed, no zone
read, no step remembered; parsing is in the figure. *Warm*: the same walks again, as when many jobs share a schedule.
Without a file a small mix of our own is used.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scheduling.core.durations import parse_go_duration
from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Cron, Interval, Schedule, normalize_steps, occurrences

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY = datetime(2026, 3, 25, tzinfo=UTC)  # Europe changes on the 29th
ZONES = (
    "UTC",
    "America/New_York",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Europe/London",
    "Europe/Paris",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Australia/Lord_Howe",
)
OWN_MIX = '{"cron": "0 9 * * mon-fri"}\n{"cron": "*/5 * * * *"}\n{"cron": "41 3-23/8 * * *"}\n{"interval": "1h"}\n'


def texts(path: Path | None) -> tuple[list[str], list[str]]:
    """The distinct expressions and intervals of a file."""
    lines = [json.loads(line) for line in (path.read_text() if path else OWN_MIX).splitlines()]
    crons = {normalize_steps(line["cron"]) for line in lines if "cron" in line}
    intervals = {line.get("interval") or line.get("minimum_interval") for line in lines if "cron" not in line}
    return sorted(crons), sorted(intervals)


def built(crons: list[str], intervals: list[str]) -> list[Schedule]:
    schedules: list[Schedule] = [Interval(parse_go_duration(text), EPOCH) for text in intervals]
    for expression in crons:
        try:
            schedules += [Cron(expression, tz) for tz in ZONES]
        except InvalidField as refusal:
            print(f"left out: {refusal}", file=sys.stderr)
    return schedules


def walked(schedules: list[Schedule], days: int) -> int:
    until = FIRST_DAY + timedelta(days=days)
    return sum(1 for schedule in schedules for _ in occurrences(schedule, after=FIRST_DAY, until=until))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("jobs", nargs="?", type=Path)
    parser.add_argument("--days", type=int, default=14)
    options = parser.parse_args()
    crons, intervals = texts(options.jobs)
    began = time.process_time()
    schedules = built(crons, intervals)
    ready = time.process_time()
    steps = walked(schedules, options.days)
    cold = time.process_time()
    walked(schedules, options.days)
    warm = time.process_time()
    figures = {
        "schedules": len(schedules),
        "steps": steps,
        "build_us_each": round((ready - began) / len(schedules) * 1e6, 1),
        "cold_per_s": round(steps / (cold - began)),
        "warm_per_s": round(steps / (warm - cold)),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
