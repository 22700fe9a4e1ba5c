"""Quotas of stored jobs: what the database refuses, as our error; and how many more a tenant may have.

The database keeps the quota, by a trigger, however jobs come in. What is here only says it well, and beforehand where
some of many are to be refused and the others made.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import DatabaseError, connections, transaction

from fairness.models import Tenant
from fairness.standings import count_refused
from scheduling.core.errors import QuotaExceeded

SQLSTATE = "FB002"  # raised by fairbeat_keep_quota

logger = logging.getLogger(__name__)


@contextmanager
def quota_kept() -> Iterator[None]:
    """The database's refusal as ``QuotaExceeded``; the transaction, or savepoint, that it was raised in is over."""
    try:
        yield
    except DatabaseError as error:
        cause = error.__cause__
        if not isinstance(cause, psycopg.Error) or cause.sqlstate != SQLSTATE:
            raise
        said = json.loads(cause.diag.message_detail or "")
        has = None if said["has"] > said["quota"] else said["has"]
        refused = QuotaExceeded(said["tenant"], quota=said["quota"], has=has, more=said["more"])
        logger.info("%s", refused)  # what counts it cannot be written: whoever made the jobs rolls back
        raise refused from error


def fitting(tenant: Tenant, wanted: int, *, using: str, counted: bool = True) -> tuple[int, QuotaExceeded | None]:
    """How many of ``wanted`` more jobs it may have, until the end of the caller's transaction; and what is to be said
    of the others, which are ``counted`` as refused if that commits.
    """
    with transaction.atomic(using=using):
        quota = (
            Tenant.objects.using(using)
            .select_for_update(no_key=True)
            .filter(pk=tenant.pk)
            .values_list("max_jobs", flat=True)
            .first()
        )
        if quota is None:
            return wanted, None
        with connections[using].cursor() as cursor:
            cursor.execute("SELECT fairbeat_live_jobs(%s, %s)", [tenant.pk, quota + wanted + 1])
            (has,) = cursor.fetchone()
        count = min(wanted, max(0, quota - has))
        if count == wanted:
            return wanted, None
        if counted:
            count_refused(connections[using].connection, tenant.pk, wanted - count)
    refused = QuotaExceeded(tenant.slug, quota=quota, has=None if has > quota else has, more=wanted)
    return count, refused
