"""Rows that say what is wrong with them: a form says it at the field, and whoever saves one gets it as an error.

The database keeps the same rules by constraints, for those who write SQL. What these raise names the constraint; behind
``update()`` and ``bulk_update()`` it is put in the constraint's own words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self, TypeVar

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import IntegrityError, models

Row = TypeVar("Row", bound="Checked")


class RefusedByConstraint(ValueError, IntegrityError):
    """The database keeps a rule that the rows would break. As after any IntegrityError, the transaction is over."""


class CheckedQuerySet(models.QuerySet[Row]):
    def update(self, **values: Any) -> int:
        """Django's. Raises ValueError, which names the field; RefusedByConstraint where only the database can tell."""
        for name, value in values.items():
            try:
                field = self.model._meta.get_field(name)
            except FieldDoesNotExist:
                break  # Django says so
            if isinstance(field, models.Field):
                cleaned(field, value)
        try:
            return super().update(**values)
        except IntegrityError as problem:
            if said := _said(self.model, problem):
                raise RefusedByConstraint(said) from problem
            raise

    update.alters_data = True  # type: ignore[attr-defined]


class CheckedManager(models.Manager[Row]):
    def get_queryset(self) -> CheckedQuerySet[Row]:
        return CheckedQuerySet(self.model, using=self._db)

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
            if field.attname not in unread:
                setattr(self, field.attname, cleaned(field, getattr(self, field.attname)))
        for name, said in self.problems():
            raise ValueError(f"{name} {getattr(self, name)!r}: {said}")

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises ValueError, which names the field and shows the value."""
        self.refuse_problems()
        super().save(*args, **kwargs)


def cleaned(field: models.Field[Any, Any], value: Any) -> Any:
    """As the field has it, where that can be told here. Raises ValueError for what it refuses."""
    if field.is_relation or hasattr(value, "resolve_expression") or (field.blank and value in field.empty_values):
        return value
    try:
        return field.clean(value, None)
    except (ValidationError, OverflowError) as problem:
        said = problem.messages[0] if isinstance(problem, ValidationError) else problem
        raise ValueError(f"{field.name} {value!r}: {said}") from None


def _said(model: type[models.Model], problem: IntegrityError) -> str | None:
    """What the constraint says that was broken, if it says anything."""
    name = getattr(getattr(problem.__cause__, "diag", None), "constraint_name", None)
    return next((str(rule.violation_error_message) for rule in _speaking(model) if rule.name == name), None)


def _speaking(model: type[models.Model]) -> Iterator[models.BaseConstraint]:
    return (
        rule for rule in model._meta.constraints if rule.violation_error_message != rule.default_violation_error_message
    )


def within(field: str, low: Any, high: Any) -> models.Q:
    """For a constraint: it is empty, or from ``low`` to ``high``; NaN is in no range."""
    return models.Q(**{f"{field}__isnull": True}) | models.Q(**{f"{field}__gte": low}) & models.Q(
        **{f"{field}__lte": high}
    )


def is_outside(value: Any, low: Any, high: Any) -> bool:
    """Whether it is a value, and not one from ``low`` to ``high``; NaN is in no range."""
    return isinstance(value, type(low)) and not low <= value <= high
