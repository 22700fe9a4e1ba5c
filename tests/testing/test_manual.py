"""The examples of docs/testing.md are run, as they stand there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.db import connection
from django.test import TestCase

from project.celery import app
from scheduling.models import DeadLetter, Fire, Job
from scheduling.services.cancel import cancel_fires
from scheduling.services.run_now import run_now
from scheduling.testing import Harness
from tests.testing.shop import MODELS, Invoice

MANUAL = Path(__file__).parents[2] / "docs" / "testing.md"
TASKS, *EXAMPLES = re.findall(r"^```python\n(.*?)^```$", MANUAL.read_text(), re.MULTILINE | re.DOTALL)
NAMES = {name: block for block in EXAMPLES for name in re.findall(r"^def (test_\w+)", block, re.MULTILINE)}
(CASE,) = (block for block in EXAMPLES if "(TestCase)" in block)


class Refused(Exception):
    """By the bank."""


class Bank:
    """The world outside of the manual's shop."""

    is_open, pages = True, 0

    def __init__(self) -> None:
        self.on_page: Callable[[], object] = lambda: None
        self.poor: set[str] = set()
        self.pushed: list[str] = []

    def reset(self) -> None:
        self.pushed.clear()

    def refuses(self, customer: str) -> None:
        self.poor.add(customer)

    def pull(self, customer: str) -> None:
        if customer in self.poor:
            raise Refused(customer)

    def push(self, customer: str) -> None:
        assert customer not in self.pushed, "it was asked twice"
        self.pushed.append(customer)

    def has_pushed(self, customer: str) -> bool:
        return customer in self.pushed

    def write_page(self, _: str) -> None:
        self.pages += 1
        self.on_page()


GIVEN = {
    "__name__": "shop.tests",
    "DeadLetter": DeadLetter,
    "Fire": Fire,
    "Harness": Harness,
    "Invoice": Invoice,
    "Job": Job,
    "TestCase": TestCase,
    "UTC": UTC,
    "cancel_fires": cancel_fires,
    "datetime": datetime,
    "pytest": pytest,
    "run_now": run_now,
    "timedelta": timedelta,
}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the examples may name; the tasks of their shop are registered meanwhile."""
    bank = Bank()
    monkeypatch.setattr(Refused, "__module__", "shop.world")
    modules: dict[str, dict[str, Any]] = {
        "shop": {},
        "shop.models": {"Invoice": Invoice},
        "shop.world": {"Refused": Refused, "bank": bank},
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    before = set(app.tasks)
    exec(compile(TASKS, "shop/tasks.py", "exec"), {"__name__": "shop.tasks"})
    yield GIVEN | {"bank": bank}
    for name in set(app.tasks) - before:
        app.tasks.pop(name)


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(NAMES))
def test_it_does_what_it_says(name: str, names: dict[str, Any], fairbeat: Harness) -> None:
    exec(compile(NAMES[name], str(MANUAL), "exec"), names)
    names[name](fairbeat)


def _case() -> type[TestCase]:
    names: dict[str, Any] = dict(GIVEN)
    exec(compile(CASE, str(MANUAL), "exec"), names)
    case: type[TestCase] = names["Invoices"]
    return case


@pytest.mark.usefixtures("names")
class TestWithoutPytest(_case()):  # type: ignore[misc]
    def setUp(self) -> None:
        with connection.schema_editor() as editor:
            for model in MODELS:
                editor.create_model(model)
