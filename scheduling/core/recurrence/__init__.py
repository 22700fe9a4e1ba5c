"""When a job is due: schedules as values, and the walk over their occurrences. The rules: ``docs/semantics.md``."""

from scheduling.core.recurrence.backlog import Backlog, Rest, backlog, count_between
from scheduling.core.recurrence.calendar import Bounded, Calendar, ClosedHours
from scheduling.core.recurrence.cron import Cron
from scheduling.core.recurrence.cron_days import DayMatch
from scheduling.core.recurrence.cron_fields import normalize_steps
from scheduling.core.recurrence.edit import Edit, edit
from scheduling.core.recurrence.interval import Interval
from scheduling.core.recurrence.lint import Caution, Doubt, lint
from scheduling.core.recurrence.nominal import nominal_times
from scheduling.core.recurrence.once import Once
from scheduling.core.recurrence.preview import Jitter, Mark, Preview, preview
from scheduling.core.recurrence.rrule import RRule
from scheduling.core.recurrence.schedule import Schedule, occurrences
from scheduling.core.recurrence.timeline import Fold, Gap
from scheduling.core.recurrence.words import words

__all__ = [
    "Backlog",
    "Bounded",
    "Calendar",
    "Caution",
    "ClosedHours",
    "Cron",
    "DayMatch",
    "Doubt",
    "Edit",
    "Fold",
    "Gap",
    "Interval",
    "Jitter",
    "Mark",
    "Once",
    "Preview",
    "RRule",
    "Rest",
    "Schedule",
    "backlog",
    "count_between",
    "edit",
    "lint",
    "nominal_times",
    "normalize_steps",
    "occurrences",
    "preview",
    "words",
]
