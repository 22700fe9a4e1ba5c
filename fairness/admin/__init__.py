"""The Django admin of tenants, and of what their shares come from. Django finds it by this package's name."""

from fairness.admin.supply import TenantQueueAdmin, WorkerReportAdmin
from fairness.admin.tenant import TenantAdmin

__all__ = ["TenantAdmin", "TenantQueueAdmin", "WorkerReportAdmin"]
