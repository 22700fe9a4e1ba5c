"""The plugin is in every pytest run of an environment in which this package is installed: it must disturb none."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

from tests.processes import PATIENCE_S

LOADED = "import sys, scheduling.testing.plugin; print([name for name in ('django', 'celery') if name in sys.modules])"


def test_it_is_found_by_its_entry_point() -> None:
    (found,) = entry_points(group="pytest11", name="fairbeat")
    assert found.value == "scheduling.testing.plugin"


def test_it_loads_neither_django_nor_celery_before_a_test_asks_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.strip() == "[]"


def test_what_is_public_is_there_by_name() -> None:
    import scheduling.testing

    assert {name: getattr(scheduling.testing, name).__name__ for name in scheduling.testing.__all__} == {
        "Harness": "Harness",
        "Message": "Message",
        "Run": "Run",
    }
