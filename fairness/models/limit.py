"""Limits of a part of what a tenant does: of a lane, of a task, or of a task in a lane."""

from __future__ import annotations

from django.db import models

from fairness.core.rate import FASTEST_PER_S, SLOWEST_PER_S
from fairness.core.terms import LANES
from fairness.models.tenant import Tenant


class Limit(models.Model):
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
    rate_per_s = models.FloatField("rate", null=True, blank=True, help_text="Fires a second. Empty: no rate.")
    burst = models.PositiveIntegerField(default=1, help_text="Fires that may go at once after a rest.")
    max_in_flight = models.PositiveIntegerField(
        null=True, blank=True, help_text="Fires that may be with the workers at once. Empty: no cap."
    )
    is_strict = models.BooleanField("strict cap", default=False, help_text="The cap holds whatever fails.")

    class Meta:
        ordering = ["tenant", "lane", "task"]
        constraints = [
            models.UniqueConstraint("tenant", "lane", "task", name="limit_is_one_of_its_kind"),
            models.CheckConstraint(
                name="limit_is_of_a_part",
                condition=~models.Q(lane="", task=""),
                violation_error_message="lane, task: name one of them; a limit of the whole tenant is its own field",
            ),
            models.CheckConstraint(
                name="limit_lane_is_known",
                condition=models.Q(lane__in=["", *LANES]),
                violation_error_message=f"lane: {' or '.join(LANES)}, or empty",
            ),
            models.CheckConstraint(
                name="limit_bounds_something",
                condition=models.Q(rate_per_s__isnull=False) | models.Q(max_in_flight__isnull=False),
                violation_error_message="rate, max in flight: give one of them, or delete the limit",
            ),
            models.CheckConstraint(
                name="limit_rate_is_positive",
                condition=models.Q(rate_per_s__isnull=True)
                | models.Q(rate_per_s__gte=SLOWEST_PER_S) & models.Q(rate_per_s__lte=FASTEST_PER_S),
                violation_error_message="rate: a number from 1e-9 to 1e9, or empty",
            ),
            models.CheckConstraint(
                name="limit_burst_is_positive",
                condition=models.Q(burst__gte=1),
                violation_error_message="burst: at least 1",
            ),
            models.CheckConstraint(
                name="limit_strict_needs_a_cap",
                condition=models.Q(is_strict=False) | models.Q(max_in_flight__isnull=False),
                violation_error_message="strict cap: needs a number of fires that may be in flight",
            ),
        ]

    def __str__(self) -> str:
        return " ".join(part for part in (str(self.tenant), self.lane, self.task) if part)
