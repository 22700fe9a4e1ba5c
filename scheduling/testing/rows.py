"""Rows that two runs left behind, in a form in which they can be compared.

What no run could make alike is left out: keys that the database or a callable default makes, and times of writing
(``auto_now``, ``auto_now_add``). A foreign key to a row of a sequence is told by the row's place in its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import AutoField, BigAutoField, Field, ForeignKey, Model, QuerySet, SmallAutoField
from django.db.models.query import ModelIterable

Rows = type[Model] | QuerySet[Any] | Iterable[type[Model] | QuerySet[Any]] | Callable[[], Any]
Found = Counter[str]


def found(rows: Rows, *, ignore: frozenset[str]) -> Found:
    """The rows as they are now, each as a text."""
    if isinstance(rows, type) and issubclass(rows, Model):
        return _texts(rows._base_manager.all(), ignore)
    if isinstance(rows, QuerySet):
        return _texts(rows.all(), ignore)
    if callable(rows):
        given = rows()
        if isinstance(given, QuerySet):
            return _texts(given, ignore)
        return Counter(map(repr, given if isinstance(given, Iterable) and not isinstance(given, str) else [given]))
    total: Found = Counter()
    for one in rows:
        total += found(one, ignore=ignore)
    return total


def difference(first: Found, other: Found) -> str:
    """What is in one and not in the other, a line for each row."""
    lines = [f"  only in the first run: {row}" for row in (first - other).elements()]
    lines += [f"  only in this one:      {row}" for row in (other - first).elements()]
    return "\n".join(lines)


def _texts(rows: QuerySet[Any], ignore: frozenset[str]) -> Found:
    if rows._iterable_class is not ModelIterable:  # values(): as they were asked for
        return Counter(map(repr, rows))
    fields = [field for field in rows.model._meta.concrete_fields if field.name not in ignore and _is_written(field)]
    places: dict[tuple[type[Model], Any], int] = {}
    return Counter(
        f"{rows.model.__name__}({', '.join(f'{f.name}={_text(f, row, places)}' for f in fields)})" for row in rows
    )


def _is_written(field: Field[Any, Any]) -> bool:
    """By the run, and not made for it."""
    is_time_of_writing = getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)
    return not is_time_of_writing and not (field.primary_key and _is_made(field))


def _is_made(key: Field[Any, Any]) -> bool:
    return isinstance(key, AutoField | BigAutoField | SmallAutoField) or callable(key.default)


def _text(field: Field[Any, Any], row: Model, places: dict[tuple[type[Model], Any], int]) -> str:
    value = field.value_from_object(row)
    if value is None or not isinstance(field, ForeignKey) or not _is_made(field.target_field):
        return repr(value)
    target: Any = field.related_model
    if not isinstance(field.target_field, AutoField | BigAutoField | SmallAutoField):
        return target.__name__
    if (target, value) not in places:
        places[target, value] = target._base_manager.using(row._state.db).filter(pk__lte=value).count()
    return f"{target.__name__} {places[target, value]}"
