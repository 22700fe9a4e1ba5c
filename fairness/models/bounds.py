"""A rate and a number in flight, as a tenant has them and as parts of what it does have them."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import models

from fairness.core.rate import FASTEST_PER_S, SLOWEST_PER_S
from fairness.models.checked import Checked, is_outside, within

RATE = "a number from 1e-9 to 1e9, or empty"
BURST = "at least 1"
STRICT = "needs a number of fires that may be in flight"


class Bounds(Checked):
    """Its constraints are named after the model that has them: ``tenant_rate_is_positive``."""

    rate_per_s = models.FloatField(
        "rate",
        null=True,
        blank=True,
        help_text="Fires a second; what is beyond waits, and a denser schedule is warned of. Empty: no rate.",
    )
    burst = models.PositiveIntegerField(default=1, db_default=1, help_text="Fires that may go at once after a rest.")
    max_in_flight = models.PositiveIntegerField(
        null=True, blank=True, help_text="Fires that may be with the workers at once; the others wait. Empty: no cap."
    )
    is_strict = models.BooleanField(
        "strict cap",
        default=False,
        db_default=False,
        help_text="The cap holds whatever fails, by rows in Postgres; it costs a statement for each batch of fires.",
    )

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                name="%(class)s_rate_is_positive",
                condition=within("rate_per_s", SLOWEST_PER_S, FASTEST_PER_S),
                violation_error_message=f"rate: {RATE}",
            ),
            models.CheckConstraint(
                name="%(class)s_burst_is_positive",
                condition=models.Q(burst__gte=1),
                violation_error_message=f"burst: {BURST}",
            ),
            models.CheckConstraint(
                name="%(class)s_strict_needs_a_cap",
                condition=models.Q(is_strict=False) | models.Q(max_in_flight__isnull=False),
                violation_error_message=f"strict cap: {STRICT}",
            ),
        ]

    def problems(self) -> Iterator[tuple[str, str]]:
        if is_outside(self.rate_per_s, SLOWEST_PER_S, FASTEST_PER_S):
            yield "rate_per_s", RATE
        if self.burst == 0:
            yield "burst", BURST
        if self.is_strict is True and self.max_in_flight is None:
            yield "is_strict", STRICT
