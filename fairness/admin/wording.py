"""How the pages of tenants say figures: shares beside what weights give, ages, limits."""

from __future__ import annotations

from datetime import datetime

from fairness.core.admission import BUDGET, RATE
from fairness.observed import Observed


def share(row: Observed) -> str:
    """What it was served, beside what its weight gives it."""
    return f"{row.share:.1%} of {row.due:.1%}" if row.due else "-"


def age(row: Observed) -> str:
    return "-" if row.backlog_age_s is None else f"{row.backlog_age_s:,.1f} s"


def held_by(row: Observed) -> str:
    """What holds the first that waits."""
    if row.reason is None:
        return "-"
    until = f" until {instant(row.until)}" if row.until is not None and row.reason in (RATE, BUDGET) else ""
    return f"{row.reason or 'its turn'}{until}"


def count(value: float) -> str:
    return f"{value:,.0f}"


def instant(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
