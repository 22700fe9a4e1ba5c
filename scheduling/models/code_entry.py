"""What the code of a Celery app says of a job: one entry of its ``beat_schedule``.

``said`` is what the code said when its job was last brought to it. Where the job differs from that, a person has
changed it; where the code does, the code has. So each is known by itself, and neither overwrites the other by mistake.
"""

from __future__ import annotations

from django.db import models

from scheduling.core.definition import NAME_LIMIT


class CodeEntry(models.Model):
    """Written by ``services.sync_entries`` alone. The entry outlives its job: one that a person deleted stays away."""

    app = models.CharField(max_length=200, help_text="Main name of the Celery app.")
    name = models.CharField(max_length=NAME_LIMIT, help_text="Key in its beat_schedule.")
    job = models.ForeignKey(
        "scheduling.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    said = models.JSONField(help_text="What the code said, by parts of a job.")
    gone = models.BooleanField(default=False, help_text="The code does not have it any more, and its job was paused.")

    class Meta:
        verbose_name_plural = "code entries"
        constraints = [models.UniqueConstraint("app", "name", name="code_entry_is_unique_in_app")]

    def __str__(self) -> str:
        return f"{self.app}: {self.name}"
