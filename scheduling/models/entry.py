"""The bucketed store's entries: the next occurrence of each job that is in its care, where its row does not hold it.

The table is made by hand in a migration, with its ring of partitions; Django knows the job's id as the key. Entries
are written by the owner of their shard alone.
"""

from __future__ import annotations

from django.db import models


class Entry(models.Model):
    job_id = models.UUIDField(primary_key=True, editable=False)
    slot = models.SmallIntegerField()
    shard_id = models.SmallIntegerField()
    tenant_id = models.IntegerField()
    schedule_version = models.IntegerField()
    fired = models.IntegerField(default=0)
    bucket = models.BigIntegerField()
    scheduled_for = models.DateTimeField()
    fire_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job_id} {self.scheduled_for:%Y-%m-%dT%H:%M:%S.%fZ}"
