"""Deleting jobs: really, where they never fired; softly, where there is history that tells of them.

The jobs are locked ``FOR UPDATE`` first, and a *second* statement looks at their fires: a claim or an acquire in flight
has committed by then, and is seen; a later one finds the job deleted. A fire that is running is left to its worker,
and so is one that was published for a job of which no worker has ever acquired a fire: a plain Celery task has run
it, or will; anything else finds the job deleted at its acquire.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connections, transaction

from scheduling.models.told_deaths import tell_of_deaths
from scheduling.sql_files import statements


def delete_jobs(job_ids: Sequence[UUID], *, using: str) -> int:
    """Delete these jobs in one transaction; returns how many went, either way.

    One that was deleted softly before, and whose history has expired since, goes for good.
    """
    sql, values = statements("deletion", **statements("dead_letters")), {"job_ids": list(job_ids)}
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute(sql["lock"], values)
        cursor.execute(sql["cancel_fires"], values)
        tell_of_deaths([fire for (fire,) in cursor.fetchall()], using=using)
        cursor.execute(sql["hide"], values)
        hidden = cursor.rowcount
        cursor.execute(sql["remove"], values)
        return hidden + cursor.rowcount
