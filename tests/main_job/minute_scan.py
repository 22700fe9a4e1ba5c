"""What a file of jobs says is due, found without the project's own recurrence code: every minute is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

Due = tuple[str, str, datetime]  # tenant, name, instant

FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES = {name: n for n, name in enumerate("sun mon tue wed thu fri sat".split())} | {
    name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)
}
UNITS = {"h": 60.0, "m": 1.0, "s": 1 / 60}


def occurrences(file: Path, *, after: datetime, until: datetime) -> set[Due]:
    """The due minutes of every line in (``after``, ``until``]."""
    minutes = [after + timedelta(minutes=n) for n in range(1, int((until - after) / timedelta(minutes=1)) + 1)]
    return {
        (job["tenant"], job["name"], minute)
        for job in map(json.loads, file.read_text().splitlines())
        for minute in _due_minutes(job, minutes)
    }


def _due_minutes(job: dict[str, str], minutes: list[datetime]) -> Iterator[datetime]:
    if "cron" in job:
        minute, hour, day, month, weekday = (
            _values(text.lower(), *bounds) for text, bounds in zip(job["cron"].split(), FIELDS, strict=True)
        )
        _, _, day_text, _, weekday_text = job["cron"].split()
        for at in minutes:
            in_day, in_week = at.day in day, at.isoweekday() % 7 in {n % 7 for n in weekday}
            both = day_text != "*" and weekday_text != "*"
            fits = in_day or in_week if both else in_day and in_week
            if fits and at.minute in minute and at.hour in hour and at.month in month:
                yield at
    else:
        text = job.get("interval") or job["minimum_interval"]
        every = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)(h|m|s)", text))
        yield from (at for at in minutes if at.timestamp() / 60 % every == 0)


def _values(text: str, lowest: int, highest: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            start, end = lowest, highest
        else:
            start = _number(first)
            end = _number(last) if last else highest if step else start
        found.update(range(start, end + 1, int(step or 1)))
    return found


def _number(text: str) -> int:
    return NAMES.get(text) if text in NAMES else int(text)  # type: ignore[return-value]


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
