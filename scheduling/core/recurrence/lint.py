"""What is allowed and probably not meant: warnings with a reason, for the form, the import and ``manage.py preview``.

Nothing here refuses; what is refused was refused when the schedule was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from scheduling.core.clock import EPOCH
from scheduling.core.recurrence.calendar import Bounded
from scheduling.core.recurrence.cron import Cron
from scheduling.core.recurrence.cron_days import DayMatch
from scheduling.core.recurrence.cron_fields import DAY_OF_MONTH, DAY_OF_WEEK, MONTH, Piece, parse, split_fields
from scheduling.core.recurrence.schedule import Schedule, occurrences, utc
from scheduling.core.recurrence.zones import DAY, transitions

LOOK_AHEAD = timedelta(days=400)  # for the zone's next gap
RATE_OVER = timedelta(minutes=10)


class Doubt(StrEnum):
    UNEVEN_STEP = "uneven_step"
    SINGLE_STEP = "single_step"
    SHORT_MONTHS = "short_months"
    BOTH_DAYS = "both_days"
    IN_GAP = "in_gap"
    DENSE = "dense"


@dataclass(frozen=True, slots=True)
class Caution:
    """One doubt, and a sentence that says why."""

    doubt: Doubt
    reason: str


def lint(schedule: Schedule, *, now: datetime, rate_per_s: float | None = None) -> list[Caution]:
    """Doubts about a schedule. ``now`` is aware, and says which gap is the next; ``rate_per_s`` is the tenant's, None
    for no limit.
    """
    now = utc("now", now)
    inner = schedule.schedule if isinstance(schedule, Bounded) else schedule
    found = _cron(inner, now) if isinstance(inner, Cron) else []
    return found + _dense(schedule, now, rate_per_s)


def _cron(cron: Cron, now: datetime) -> list[Caution]:
    pieces = split_fields(cron.expression)
    steps = [_step(item) for piece in pieces for item in piece.split(",")]
    return [
        caution for caution in (*steps, _short_months(cron), _both_days(cron, pieces), _in_gap(cron, now)) if caution
    ]


def _step(item: Piece) -> Caution | None:
    head, slash, tail = item.text.partition("/")
    if not slash or head != "*" or item.kind in (DAY_OF_WEEK, MONTH):
        return None
    step, size = int(tail), item.kind.high - item.kind.low + 1
    if step >= size:
        return Caution(
            Doubt.SINGLE_STEP,
            f"{item.kind.name} */{tail} matches {item.kind.low} only: the step is as long as its round",
        )
    if item.kind is DAY_OF_MONTH:
        return Caution(
            Doubt.UNEVEN_STEP,
            f"{item.kind.name} */{tail} starts again on the 1st of each month, however near the last one was",
        )
    if size % step == 0:
        return None
    last = (size - 1) // step * step
    return Caution(
        Doubt.UNEVEN_STEP,
        f"{item.kind.name} */{tail} is uneven: from {last} to the next 0 it is {size - last}, not {tail}",
    )


def _short_months(cron: Cron) -> Caution | None:
    rule = parse(cron.expression, cron.key).day_rule
    if rule.days_open or rule.last_day or rule.last_workday:
        return None
    late = [day for day in (29, 30, 31) if rule.days >> day & 1]
    if not late or rule.days & 0x1FFF_FFFE == 0x1FFF_FFFE:
        return None
    return Caution(
        Doubt.SHORT_MONTHS, f"day of month {late[0]} is missing in short months; L is the last day of every month"
    )


def _both_days(cron: Cron, pieces: tuple[Piece, ...]) -> Caution | None:
    day, weekday = pieces[3].text, pieces[5].text
    if day == "*" or weekday == "*":
        return None
    if cron.day_match is DayMatch.OR and not day.startswith("*") and not weekday.startswith("*"):
        reason = "either fires; if both were meant, set day_match to and"
    else:
        reason = "both must match"
    return Caution(Doubt.BOTH_DAYS, f"day of month {day} and day of week {weekday} are both set: {reason}")


def _in_gap(cron: Cron, now: datetime) -> Caution | None:
    """A wall-clock time that the zone skips at its next change."""
    start = (now - EPOCH) // timedelta(seconds=1)
    gaps = (
        change
        for change in transitions(cron.tz, after=start, until=start + LOOK_AHEAD.days * DAY)
        if change.after > change.before
    )
    for change in islice(gaps, 1):
        opens, closes = change.at + change.before, change.at + change.after
        if cron.line.wall_clock:
            for local in islice(cron.line.wall.local_times(opens, closes), 1):
                shown = EPOCH.replace(tzinfo=None) + timedelta(seconds=local)
                return Caution(
                    Doubt.IN_GAP, f"{cron.tz} skips {shown:%Y-%m-%d %H:%M}; there it fires by gap={cron.gap}"
                )
    return None


def _dense(schedule: Schedule, now: datetime, rate_per_s: float | None) -> list[Caution]:
    """More occurrences, over the ten minutes from the next one on, than the tenant's rate lets through."""
    first = None if rate_per_s is None else schedule.next_after(now)
    if rate_per_s is None or first is None:
        return []
    allowed = int(rate_per_s * RATE_OVER.total_seconds()) + 1
    burst = occurrences(schedule, after=first - timedelta(microseconds=1), until=first + RATE_OVER)
    if sum(1 for _ in islice(burst, allowed + 1)) <= allowed:
        return []
    return [
        Caution(
            Doubt.DENSE,
            f"fires more often than the tenant's rate of {rate_per_s:g}/s lets through: it will fall behind",
        )
    ]
