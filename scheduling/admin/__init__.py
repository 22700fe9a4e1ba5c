"""The Django admin of jobs, of their history, and of the cluster. Django finds it by this package's name."""

from scheduling.admin.calendar import CalendarAdmin
from scheduling.admin.cluster import NodeAdmin, ShardAdmin
from scheduling.admin.job import JobAdmin
from scheduling.admin.ledger import FireAdmin, JobRunAdmin

__all__ = ["CalendarAdmin", "FireAdmin", "JobAdmin", "JobRunAdmin", "NodeAdmin", "ShardAdmin"]
