"""Deleting tenants: refused, in a sentence, as long as they own what outlives nobody, such as jobs.

Django would refuse it as well; but it reads all of that first, be it a million rows, and shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import ProtectedError

from fairness.models.checked import CheckedQuerySet

if TYPE_CHECKING:
    from fairness.models.tenant import Tenant

COUNTED = 10_000


class TenantInUse(ProtectedError):
    """A tenant cannot be deleted yet. Its text says what is to be done."""

    def __init__(self, said: str) -> None:
        super().__init__(said, set())

    def __str__(self) -> str:
        return str(self.args[0])


class TenantQuerySet(CheckedQuerySet["Tenant"]):
    def delete(self) -> tuple[int, dict[str, int]]:
        """As Django's. Raises TenantInUse."""
        refuse_in_use(self, using=self.db)
        return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]


def refuse_in_use(tenants: Iterable[Tenant], *, using: str) -> None:
    """Raises TenantInUse."""
    for said in in_use(tenants, using=using):
        raise TenantInUse(said)


def in_use(tenants: Iterable[Tenant], *, using: str) -> list[str]:
    """What is to be said of those that own something which has to be deleted before them."""
    return [
        _said(tenant, relation.related_model, count)
        for tenant in tenants
        for relation in tenant._meta.related_objects
        if relation.on_delete is models.PROTECT and (count := _count(tenant, relation, using))
    ]


def _count(tenant: Tenant, relation: Any, using: str) -> int:
    """Up to one beyond ``COUNTED``."""
    rows = relation.related_model._base_manager.using(using).filter(**{relation.field.name: tenant})
    count: int = rows.order_by()[: COUNTED + 1].count()
    return count


def _said(tenant: Tenant, model: Any, count: int) -> str:
    many = f"more than {COUNTED:,}" if count > COUNTED else f"{count:,}"
    what = model._meta.verbose_name if count == 1 else model._meta.verbose_name_plural
    return (
        f"tenant {tenant.slug!r}: it has {many} {what}; delete them first, and once more when their history is over:"
        " till then those that have fired stay, hidden. max_in_flight 0 and max_jobs 0 make it do nothing meanwhile"
    )
