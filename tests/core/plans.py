"""Plans of jobs, made at an instant and read as seconds after noon."""

from __future__ import annotations

from typing import Any

from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.due import DueJob
from scheduling.core.judged_plan import plan_job
from scheduling.core.plans import JobPlan
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND


def plan(due: DueJob, *, until_s: float = 1.0, at_s: float = 0.0) -> JobPlan:
    """The plan that is made ``at_s`` seconds after noon, for what is due up to ``until_s`` seconds after it."""
    clock = ManualClock()
    clock.advance(at_s)
    return plan_job(due, until=NOON + SECOND * until_s, clock=clock)


def seconds(plan: JobPlan) -> list[tuple[float, str]]:
    """The rows of a plan: seconds after noon, and the state with its reason."""
    return [((row.fire.scheduled_for - NOON).total_seconds(), f"{row.state} {row.reason}".strip()) for row in plan.rows]


def cron(expression: str, **values: Any) -> ScheduleFields:
    return ScheduleFields(kind=Kind.CRON, cron=expression, **values)
