"""The jobs that a service is given, and the transaction in which it works on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connections, transaction
from django.db.models import QuerySet

from scheduling.core.errors import InvalidField
from scheduling.models import Job
from scheduling.store.connection import Connection

Jobs = Iterable[Job] | QuerySet[Job]
BY_LIMIT = 200
REQUEST_LIMIT = 100


def ids_of(jobs: Jobs) -> list[UUID]:
    """Their ids, each once. A query set is read for its ids alone; a slice of one keeps the order that makes it."""
    if isinstance(jobs, QuerySet):
        found = jobs if jobs.query.is_sliced else jobs.order_by()
        return list(set(found.values_list("pk", flat=True)))
    return list({job.pk for job in jobs})


@contextmanager
def in_transaction(using: str) -> Iterator[Connection]:
    """psycopg's connection under Django's, in a transaction (the caller's, if there is one), with Django's errors."""
    with transaction.atomic(using=using), connections[using].wrap_database_errors:
        yield connections[using].connection


def locked(job_ids: Collection[UUID], *, using: str) -> list[Job]:
    """The jobs, neither deleted nor changed by anyone else until the transaction ends; workers may acquire their fires.

    Raises InvalidField (``job``) for one that was deleted.
    """
    rows = Job.objects.using(using).select_for_update(no_key=True, of=("self",)).select_related("tenant", "calendar")
    jobs = list(rows.filter(pk__in=job_ids).order_by("pk"))
    if deleted := [job for job in jobs if job.deleted_at is not None]:
        raise InvalidField("job", str(deleted[0]), "was deleted")
    if missing := set(job_ids) - {job.pk for job in jobs}:
        raise InvalidField("job", str(min(missing)), "was deleted")
    return jobs


def said(field: str, text: str, *, limit: int) -> str:
    """Text that a person must give, without the blanks round it.

    Raises InvalidField: empty, too long for its column, or not storable.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidField(field, text, "is needed")
    if len(text.strip()) > limit:
        raise InvalidField(field, text, f"is longer than {limit} characters")
    if "\x00" in text:
        raise InvalidField(field, text, "contains a NUL character, which Postgres cannot store")
    return text.strip()
