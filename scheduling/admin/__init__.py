"""The Django admin of jobs, of their history, and of the cluster. Django finds it by this package's name."""

from scheduling.admin.cluster import NodeAdmin, ShardAdmin
from scheduling.admin.job import JobAdmin
from scheduling.admin.ledger import FireAdmin, JobRunAdmin

__all__ = ["FireAdmin", "JobAdmin", "JobRunAdmin", "NodeAdmin", "ShardAdmin"]
