"""Limits of a part of what a tenant does: of a lane, of a task, or of a task in a lane."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import models

from fairness.core.terms import LANES
from fairness.models.bounds import Bounds
from fairness.models.tenant import Tenant

OF_A_PART = "lane, task: name one of them; a limit of the whole tenant is its own field"
BOUNDS_SOMETHING = "rate, max in flight: give one of them, or delete the limit"


class Limit(Bounds):
    """Holds beside those of the tenant itself: a fire passes all that apply to it."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="limits")
    lane = models.CharField(
        max_length=20,
        blank=True,
        default="",
        choices=[(lane, lane) for lane in LANES],
        help_text="Empty: both lanes together.",
    )
    task = models.CharField(max_length=255, blank=True, default="", help_text="Name of a task. Empty: all together.")

    class Meta:
        ordering = ["tenant", "lane", "task"]
        constraints = [
            *Bounds.Meta.constraints,
            models.UniqueConstraint("tenant", "lane", "task", name="limit_is_one_of_its_kind"),
            models.CheckConstraint(
                name="limit_is_of_a_part",
                condition=~models.Q(lane="", task=""),
                violation_error_message=OF_A_PART,
            ),
            models.CheckConstraint(
                name="limit_lane_is_known",
                condition=models.Q(lane__in=["", *LANES]),
                violation_error_message=f"lane: {' or '.join(LANES)}, or empty",
            ),
            models.CheckConstraint(
                name="limit_bounds_something",
                condition=models.Q(rate_per_s__isnull=False) | models.Q(max_in_flight__isnull=False),
                violation_error_message=BOUNDS_SOMETHING,
            ),
        ]

    def __str__(self) -> str:
        return " ".join(part for part in (str(self.tenant), self.lane, self.task) if part)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if not self.lane and not self.task:
            yield "task", OF_A_PART
        if self.rate_per_s is None and self.max_in_flight is None:
            yield "rate_per_s", BOUNDS_SOMETHING
