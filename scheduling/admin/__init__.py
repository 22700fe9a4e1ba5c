"""The Django admin of jobs, of their history, and of the cluster. Django finds it by this package's name."""

from scheduling.admin import known_tasks  # noqa: F401  (tells the pages of tenants which tasks there are)
from scheduling.admin.calendar import CalendarAdmin
from scheduling.admin.cluster import NodeAdmin, ShardAdmin
from scheduling.admin.dead_letter import DeadLetterAdmin
from scheduling.admin.job import JobAdmin
from scheduling.admin.ledger import FireAdmin, JobRunAdmin
from scheduling.admin.redrive import RedriveAdmin

__all__ = [
    "CalendarAdmin",
    "DeadLetterAdmin",
    "FireAdmin",
    "JobAdmin",
    "JobRunAdmin",
    "NodeAdmin",
    "RedriveAdmin",
    "ShardAdmin",
]
