"""When a job is due: schedules as values, and the walk over their occurrences. The rules stand in
``docs/semantics.md``.
"""

from scheduling.core.recurrence.cron import Cron
from scheduling.core.recurrence.cron_fields import normalize_steps
from scheduling.core.recurrence.cron_plan import DayMatch, Fold, Gap
from scheduling.core.recurrence.interval import Interval
from scheduling.core.recurrence.once import Once
from scheduling.core.recurrence.schedule import Schedule, occurrences

__all__ = ["Cron", "DayMatch", "Fold", "Gap", "Interval", "Once", "Schedule", "normalize_steps", "occurrences"]
