"""When a job is due: schedules as values, and the walk over their occurrences. The rules stand in
``docs/semantics.md``.
"""

from scheduling.core.recurrence.cron import Cron
from scheduling.core.recurrence.cron_days import DayMatch
from scheduling.core.recurrence.cron_fields import normalize_steps
from scheduling.core.recurrence.interval import Interval
from scheduling.core.recurrence.once import Once
from scheduling.core.recurrence.rrule import RRule
from scheduling.core.recurrence.schedule import Schedule, occurrences
from scheduling.core.recurrence.timeline import Fold, Gap

__all__ = ["Cron", "DayMatch", "Fold", "Gap", "Interval", "Once", "RRule", "Schedule", "normalize_steps", "occurrences"]
