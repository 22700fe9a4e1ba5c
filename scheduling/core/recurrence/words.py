"""A schedule in words: "At 09:00, Monday to Friday, Europe/Paris".

English, meant for a line in a list. Where an expression is too odd for a short sentence its values are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from scheduling.core.clock import EPOCH
from scheduling.core.recurrence.calendar import Bounded
from scheduling.core.recurrence.cron import Cron
from scheduling.core.recurrence.cron_days import DayMatch, DayRule
from scheduling.core.recurrence.cron_fields import Fields, parse
from scheduling.core.recurrence.interval import Interval
from scheduling.core.recurrence.once import Once
from scheduling.core.recurrence.rrule import RRule
from scheduling.core.recurrence.schedule import Schedule

MOST_TIMES = 6  # times of day spelt out one by one
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
ORDINALS = ("first", "second", "third", "fourth", "fifth")
_UNITS = (
    (timedelta(days=1), "day"),
    (timedelta(hours=1), "hour"),
    (timedelta(minutes=1), "minute"),
    (timedelta(seconds=1), "second"),
)


def words(schedule: Schedule) -> str:
    """One sentence without a full stop."""
    match schedule:
        case Once(at=at):
            return f"Once, at {_moment(at)}"
        case Interval(every=every, anchor=anchor):
            counted = "the Unix epoch" if anchor == EPOCH else _moment(anchor)
            return f"Every {_length(every)}, counted from {counted}"
        case Cron():
            return _cron(schedule)
        case RRule(text=text, tz=tz):
            return f"By the rule {' '.join(text.split())}, {tz}"
        case Bounded(schedule=inner, start_at=start_at, end_at=end_at):
            since = f", from {_moment(start_at)}" if start_at else ""
            till = f", until {_moment(end_at)}" if end_at else ""
            return f"{words(inner)}{since}{till}"
    return repr(schedule)


def _cron(cron: Cron) -> str:
    fields = parse(cron.expression, cron.key)
    days = _days(fields.day_rule, cron.day_match)
    months = [MONTHS[month - 1] for month in _values(fields.months)]
    times = _times(fields)
    parts = [times]
    if days:
        parts.append(days)
    elif len(months) == 12 and times.startswith("At "):
        parts.append("every day")
    if len(months) < 12:
        parts.append(f"in {_listed(months, MONTHS)}")
    return ", ".join([*parts, cron.tz])


def _times(fields: Fields) -> str:
    seconds, minutes, hours = _values(fields.seconds), _values(fields.minutes), _values(fields.hours)
    if len(seconds) * len(minutes) * len(hours) <= MOST_TIMES:
        return f"At {_joined([_clock(h, m, s) for h in hours for m in minutes for s in seconds])}"
    in_hours = "" if len(hours) == 24 else f", {_hours(hours)}"
    if seconds != [0]:
        of_minutes = "" if len(minutes) == 60 else f" of {_counted('minute', minutes, 60)}"
        return f"{_first_up(_each('second', seconds, 60))}{of_minutes}{in_hours}"
    if len(minutes) == 1 and len(hours) == 24:
        return f"Every hour at minute {minutes[0]}"
    if len(minutes) == 1 and (step := _step(hours, 24)) and step > 1:
        return f"Every {step} hours at minute {minutes[0]}"
    return f"{_first_up(_each('minute', minutes, 60))}{in_hours}"


def _each(unit: str, values: Sequence[int], size: int) -> str:
    """ "every minute", "every 5 minutes", "at minutes 3 and 17"."""
    step = _step(values, size)
    if step:
        return f"every {unit}" if step == 1 else f"every {step} {unit}s"
    return f"at {_counted(unit, values, size)}"


def _counted(unit: str, values: Sequence[int], size: int) -> str:
    step = _step(values, size)
    if step and step > 1:
        return f"every {step} {unit}s"
    return f"{unit}{'' if len(values) == 1 else 's'} {_spans(values)}"


def _hours(hours: Sequence[int]) -> str:
    if hours[-1] - hours[0] == len(hours) - 1:
        return f"{hours[0]:02}:00 to {hours[-1]:02}:59"
    return f"in hours {_spans(hours)}"


def _step(values: Sequence[int], size: int) -> int | None:
    """The step, if the values are every n-th of a whole round from 0 on."""
    step = size // len(values)
    return step if list(values) == list(range(0, size, step)) and size % step == 0 else None


def _days(rule: DayRule, match: DayMatch) -> str:
    """Empty for every day."""
    by_weekday, by_date = _by_weekday(rule), _by_date(rule)
    if not by_weekday or not by_date:
        return by_weekday or by_date
    both = match is DayMatch.AND or rule.days_open or rule.weekdays_open
    return f"{by_date} {'that is also' if both else 'or'} {by_weekday}"


def _by_date(rule: DayRule) -> str:
    days = _values(rule.days)
    if len(days) == 31 and rule.days_open:
        return ""
    said = [f"day{'' if len(days) == 1 else 's'} {_spans(days)}"] if days else []
    if rule.last_day:
        said.append("the last day")
    if rule.last_workday:
        said.append("the last day of Monday to Friday")
    return f"on {_joined(said)} of the month"


def _by_weekday(rule: DayRule) -> str:
    if rule.weekdays == 0x7F and rule.weekdays_open:
        return ""
    said = []
    if rule.weekdays:
        from_monday = sorted(_values(rule.weekdays), key=lambda day: (day - 1) % 7)
        said.append(_listed([WEEKDAYS[day] for day in from_monday], (*WEEKDAYS[1:], WEEKDAYS[0])))
    nths = [*zip(ORDINALS, rule.nth_weekdays, strict=True), ("last", rule.last_weekdays)]
    said += [f"the {nth} {WEEKDAYS[day]} of the month" for nth, mask in nths for day in _values(mask)]
    return _joined(said)


def _listed(names: Sequence[str], order: Sequence[str]) -> str:
    """ "Monday to Friday" for neighbours, else one by one."""
    first, last = order.index(names[0]), order.index(names[-1])
    if len(names) > 2 and last - first == len(names) - 1:
        return f"{names[0]} to {names[-1]}"
    return _joined(names)


def _spans(values: Sequence[int]) -> str:
    """ "3", "3 to 9", "1, 4 and 7 to 9"."""
    spans: list[list[int]] = []
    for value in values:
        if spans and value == spans[-1][-1] + 1:
            spans[-1].append(value)
        else:
            spans.append([value])
    texts: list[str] = []
    for span in spans:
        texts += [f"{span[0]} to {span[-1]}"] if len(span) > 2 else map(str, span)
    return _joined(texts)


def _joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _values(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment.second else f"{moment:%Y-%m-%d %H:%M} UTC"


def _length(every: timedelta) -> str:
    """ "30 minutes", "day", "1 hour 30 minutes"."""
    said = []
    for unit, name in _UNITS:
        count, every = divmod(every, unit)
        if count:
            said.append(f"{count} {name}{'' if count == 1 else 's'}")
    if every:
        said.append(f"{every / timedelta(milliseconds=1):g} ms")
    return said[0].removeprefix("1 ") if len(said) == 1 else " ".join(said)


def _first_up(text: str) -> str:
    return text[0].upper() + text[1:]
