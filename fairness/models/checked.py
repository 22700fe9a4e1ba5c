"""Rows that say what is wrong with them: a form says it at the field, and whoever saves one gets it as an error.

The database keeps the same rules by constraints, for those who write SQL or ``update()``: what these raise names the
constraint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self, TypeVar

from django.core.exceptions import ValidationError
from django.db import models

Row = TypeVar("Row", bound="Checked")


class CheckedManager(models.Manager[Row]):
    def bulk_create(self, objs: Iterable[Row], *args: Any, **kwargs: Any) -> list[Row]:
        """Django's, with each row checked as ``save()`` does. Raises ValueError."""
        rows = list(objs)
        for row in rows:
            row.refuse_problems()
        return super().bulk_create(rows, *args, **kwargs)


class Checked(models.Model):
    objects: ClassVar[CheckedManager[Self]] = CheckedManager()

    class Meta:
        abstract = True

    def problems(self) -> Iterator[tuple[str, str]]:
        """Fields and what is wrong with their values, beyond what the fields themselves refuse."""
        raise NotImplementedError

    def clean(self) -> None:
        found = defaultdict(list)
        for name, problem in self.problems():
            found[name].append(problem)
        if found:
            raise ValidationError(dict(found))

    def refuse_problems(self) -> None:
        """Raises ValueError for the first value that cannot be; it names the field and shows the value."""
        unread = self.get_deferred_fields()  # and so not written
        for field in self._meta.concrete_fields:
            if field.is_relation or field.attname in unread:
                continue
            value = getattr(self, field.attname)
            if hasattr(value, "resolve_expression") or (field.blank and value in field.empty_values):
                continue
            try:
                setattr(self, field.attname, field.clean(value, self))
            except (ValidationError, OverflowError) as problem:
                said = problem.messages[0] if isinstance(problem, ValidationError) else problem
                raise ValueError(f"{field.name} {value!r}: {said}") from None
        for name, said in self.problems():
            raise ValueError(f"{name} {getattr(self, name)!r}: {said}")

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises ValueError, which names the field and shows the value."""
        self.refuse_problems()
        super().save(*args, **kwargs)


def within(field: str, low: Any, high: Any) -> models.Q:
    """For a constraint: it is empty, or from ``low`` to ``high``; NaN is in no range."""
    return models.Q(**{f"{field}__isnull": True}) | models.Q(**{f"{field}__gte": low}) & models.Q(
        **{f"{field}__lte": high}
    )


def is_outside(value: Any, low: Any, high: Any) -> bool:
    """Whether it is a value, and not one from ``low`` to ``high``; NaN is in no range."""
    return isinstance(value, type(low)) and not low <= value <= high
