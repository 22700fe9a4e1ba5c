"""The load: some hundred fires a second, of several tenants, of every kind of schedule and policy that matters here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from fairness.core.terms import Bound
from fairness.models import Tenant
from scheduling.core.clock import EPOCH
from scheduling.models import Job

TASK = "tests.chaos.tasks.effect"
MORTAL = "tests.chaos.tasks.mortal"
GREEDY = "tests.chaos.tasks.greedy"
FAILING = "tests.chaos.tasks.failing"
HANGING = "tests.chaos.tasks.hanging"
FLOOD = "flood"  # the tenant of floods
RATED, CAPPED = "flood-rated", "flood-capped"  # whose limits keep their fires waiting
# Weights by what they want: a flood has what is left over.
TENANTS = {"acme": 4.0, "bakery": 2.0, "city": 2.0, "rare": 1.0, FLOOD: 0.2, RATED: 0.5, CAPPED: 1.0}
LIMITS = {
    RATED: Bound(rate_per_s=20.0, burst=80),
    CAPPED: Bound(max_in_flight=2, is_strict=True),
}
RARE, RARE_EVERY_S = "rare", 4  # its queue stands empty most of the time, so that it can be deleted
LONG_S = 4.0  # what a long run works
MAKING = timedelta(seconds=1)  # to make some jobs more; a job has no occurrence before it was made

# No fire is to die of faults, and those that fail come back soon.
PATIENT = {"max_attempts": 100, "retry_base": timedelta(seconds=0.5), "retry_cap": timedelta(seconds=3)}


@dataclass(frozen=True, slots=True)
class Group:
    """``count`` like jobs. ``every_s`` 0: each second, by a cron expression; None: once, when they begin."""

    tenant: str
    name: str
    count: int
    every_s: float | None
    work_s: float = 0.0
    task: str = TASK
    options: dict[str, Any] = field(default_factory=dict)


GROUPS = (
    Group("acme", "each second", 30, 1.0),
    Group("bakery", "twice a second", 15, 0.5),
    Group("city", "cron", 12, 0),
    Group("city", "cron with jitter", 6, 0, options={"jitter": timedelta(milliseconds=300)}),
    Group("city", "now or never", 5, 1.0, options={"misfire": "skip", "misfire_grace_s": 1.0}),
    Group("bakery", "one after the other", 3, 3.0, work_s=0.1, options={"overlap": "buffer_all"}),
    Group("acme", "long", 2, 5.0, work_s=LONG_S, options={"overlap": "skip"}),
    Group("acme", "transactional", 4, 1.0, options={"lane": "transactional"}),
    Group(RARE, "rare", 3, RARE_EVERY_S),
    Group(RATED, "rated", 5, 1.0),
    Group(CAPPED, "capped", 8, 3.0, work_s=0.4),
)


@transaction.atomic
def make_load(*, start_at: datetime, end_at: datetime) -> None:
    """Jobs that fire from ``start_at`` to ``end_at``, both of them included."""
    for slug, weight in TENANTS.items():
        Tenant.objects.create(slug=slug, weight=weight, **asdict(LIMITS.get(slug, Bound())))
    for group in GROUPS:
        _make_all(group, start_at=start_at, end_at=end_at)


@transaction.atomic
def make_more(group: Group, *, start_at: datetime, end_at: datetime) -> list[Job]:
    """Some jobs more, in whatever shards there are by now. Their names are made their own."""
    return _make_all(replace(group, name=f"{group.name} {start_at:%H:%M:%S}"), start_at=start_at, end_at=end_at)


def _make_all(group: Group, **span: datetime) -> list[Job]:
    return [_make(group, number, **span) for number in range(group.count)]


def _make(group: Group, number: int, *, start_at: datetime, end_at: datetime) -> Job:
    said = {
        "tenant": group.tenant,
        "name": f"{group.name} {number}",
        "kwargs": {"work_s": group.work_s} if group.work_s else {},
        "end_at": end_at,
        **PATIENT,
        **group.options,
    }
    if group.every_s is None:
        return Job.objects.once(group.task, start_at, **said)
    said["start_at"] = start_at
    if not group.every_s:
        return Job.objects.cron(group.task, "* * * * * *", **said)
    # Each at its own phase, but for the rare ones, which leave a gap together.
    phase_s = 0.0 if group.tenant == RARE else group.every_s * number / group.count
    every, anchor = timedelta(seconds=group.every_s), EPOCH + timedelta(seconds=phase_s)
    return Job.objects.every(group.task, every, anchor=anchor, **said)
