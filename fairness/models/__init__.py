"""The tables, as Django sees them."""

from fairness.models.budget import Budget
from fairness.models.limit import Limit
from fairness.models.standing import ServedShare, Standing
from fairness.models.tenant import DEFAULT_TENANT, SLUG_PATTERN, HistoryDays, Tenant, seed_default_tenant
from fairness.models.tenant_queue import TenantQueue
from fairness.models.worker_report import WorkerReport

__all__ = [
    "DEFAULT_TENANT",
    "SLUG_PATTERN",
    "Budget",
    "HistoryDays",
    "Limit",
    "ServedShare",
    "Standing",
    "Tenant",
    "TenantQueue",
    "WorkerReport",
    "seed_default_tenant",
]
