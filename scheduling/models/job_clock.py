"""The one row that all processes read to turn real time into job time (see ``scheduling.core.clock``)."""

from __future__ import annotations

from datetime import datetime

from django.db import connections, models


class JobClockManager(models.Manager["JobClock"]):
    def now(self) -> datetime:
        """Job time, from the database's clock: a web server whose own clock is off changes nothing."""
        with connections[self.db].cursor() as cursor:
            cursor.execute("SELECT fairbeat_job_now()")
            now: datetime = cursor.fetchone()[0]
        return now


class JobClock(models.Model):
    """A time-lapse. Without a row, job time is database time."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    job_origin = models.DateTimeField(help_text="Job time at the real origin.")
    real_origin = models.DateTimeField(null=True, help_text="Database time at which it starts; empty: it stands still.")
    speed = models.FloatField(default=1.0, help_text="Job seconds in a real second.")
    stops_after_s = models.FloatField(null=True, help_text="Real seconds after which it stands still again.")

    objects = JobClockManager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="job_clock_is_one_row", condition=models.Q(id=1)),
            models.CheckConstraint(name="job_clock_speed_is_positive", condition=models.Q(speed__gt=0)),
        ]

    def __str__(self) -> str:
        return f"{self.job_origin:%Y-%m-%d %H:%M:%S} at speed {self.speed:g}"
