"""Rows of one's own that a stale run cannot write: each remembers which run wrote it last.

::

    class Balance(FencedModel):
        amount = models.DecimalField(…)

    Balance.objects.fenced(current_job()).filter(pk=7).update(amount=…)

A row's token is (``scheduled_for``, fence) of its last fenced writer. A run writes the rows whose token is not higher
than its own, and sets its own in the same UPDATE: neither an attempt that lost its lease long ago and wakes up now,
nor a late run of yesterday's occurrence, overwrites what a later one wrote. Where ``ctx.commit()`` can be used, it does
more; this is for writes along the way, and for rows in another database than the ledger's.

Invariants: a refused write raises StaleWrite, and then nothing of it is written (I10: no success for a refused write).
A model of one's own that exists already takes part by inheriting the two columns; rows that no fenced run wrote have no
token, and let anybody in. Does not do: fence ``save()`` and ``delete()`` of an object, nor any write that does not go
through ``fenced()``: those change no token. A backfill of an old occurrence is older than what the newer ones wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from django.db import models, transaction

from scheduling.core.errors import InvalidField
from scheduling.worker.context import JobContext, current_job
from scheduling.worker.errors import StaleWrite

M = TypeVar("M", bound=models.Model)

FOR, BY = "fenced_for", "fenced_by"  # the columns


class FencedQuerySet(models.QuerySet[M]):
    """Of a FencedModel. As any other until ``fenced()`` names the run that writes."""

    _run: JobContext | None = None

    def fenced(self, run: JobContext | None = None) -> FencedQuerySet[M]:
        """The same rows, to be written by this run, or by the one that the current code is.

        Raises NoCurrentJob where there is none.
        """
        found: FencedQuerySet[M] = self._chain()  # type: ignore[attr-defined]
        found._run = run if run is not None else current_job()
        return found

    def update(self, **values: Any) -> int:
        """How many rows were written. Raises StaleWrite, and writes none, where one of them has a higher token."""
        if self._run is None:
            return super().update(**values)
        _refuse_columns(values)
        self._for_write = True
        with transaction.atomic(using=self.db):
            count = self._plain().filter(self._not_higher()).update(**values, **self._token())
            self._refuse_higher()
        return count

    def delete(self) -> tuple[int, dict[str, int]]:
        """As Django's. Raises StaleWrite, and deletes nothing, where one of the rows has a higher token."""
        if self._run is None:
            return super().delete()
        self._for_write = True
        with transaction.atomic(using=self.db):
            found = list(self._plain().select_for_update(of=("self",)).values_list("pk", flat=True))
            self._refuse_higher()
            return self._plain().filter(pk__in=found).delete()

    def create(self, **values: Any) -> M:
        """A row that this run wrote."""
        if self._run is None:
            return super().create(**values)
        _refuse_columns(values)
        return super().create(**values, **self._token())

    def bulk_create(self, objs: Iterable[M], *args: Any, **options: Any) -> list[M]:
        """Rows that this run wrote. Not those that are there: it cannot fence an upsert."""
        if self._run is not None:
            if options.get("update_conflicts"):
                self._refuse("bulk_create(update_conflicts=True)")
            objs = list(objs)
            for row in objs:
                for column, value in self._token().items():
                    setattr(row, column, value)
        return super().bulk_create(objs, *args, **options)

    def update_or_create(self, *args: Any, **options: Any) -> tuple[M, bool]:
        if self._run is not None:
            self._refuse("update_or_create()")
        return super().update_or_create(*args, **options)

    def _clone(self) -> FencedQuerySet[M]:
        found: FencedQuerySet[M] = super()._clone()  # type: ignore[misc]
        found._run = self._run
        return found

    def _plain(self) -> FencedQuerySet[M]:
        found: FencedQuerySet[M] = self._chain()  # type: ignore[attr-defined]
        found._run, found._for_write = None, True
        return found

    def _token(self) -> dict[str, Any]:
        assert self._run is not None
        return {FOR: self._run.scheduled_for, BY: self._run.fence}

    def _not_higher(self) -> models.Q:
        token = self._token()
        is_earlier = models.Q(**{f"{FOR}__isnull": True}) | models.Q(**{f"{FOR}__lt": token[FOR]})
        return is_earlier | models.Q(**{FOR: token[FOR], f"{BY}__lte": token[BY]})

    def _refuse_higher(self) -> None:
        """What this statement did not write because of its token still stands, and is seen by the next one."""
        higher = self._plain().exclude(self._not_higher()).values_list(FOR, BY).first()
        if higher is not None:
            assert self._run is not None
            raise StaleWrite(
                f"{self.model._meta.label} was written by the run of {higher[0]:%Y-%m-%dT%H:%M:%S.%fZ} with fence "
                f"{higher[1]}; fire {self._run.fire_id} (of {self._run.scheduled_for:%Y-%m-%dT%H:%M:%S.%fZ}, fence "
                f"{self._run.fence}) is older, and wrote nothing"
            )

    def _refuse(self, method: str) -> NoReturn:
        raise InvalidField("method", method, "cannot be fenced; use update() of what is there, and create() else")


class FencedModel(models.Model):
    """Two columns, and a manager with ``fenced()``."""

    fenced_for = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="The occurrence whose run wrote this row last."
    )
    fenced_by = models.IntegerField(null=True, blank=True, editable=False, help_text="The fence of that run.")

    objects = FencedQuerySet.as_manager()

    class Meta:
        abstract = True


def _refuse_columns(values: dict[str, Any]) -> None:
    for column in (FOR, BY):
        if column in values:
            raise InvalidField(column, values[column], "is the run's, and set by it alone")
