from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from scheduling import JobTask


def nothing(*_: object, **__: object) -> None:
    """The body of the tasks: they are looked at, and not run."""


@pytest.fixture
def shop() -> Celery[Any]:
    """An app of its own, with a task of Fairbeat and a plain one."""
    app: Celery[Any] = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.update(timezone="Europe/Paris")
    make: Any = app.task
    make(nothing, name="shop.report", base=JobTask)
    make(nothing, name="shop.plain")
    make(nothing, name="shop.limited", base=JobTask, time_limit=90)
    return app
