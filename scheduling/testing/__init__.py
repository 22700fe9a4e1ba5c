"""What tests of jobs need in place of the real thing: ``Harness``, and the pytest fixture ``fairbeat`` (``plugin``).

docs/testing.md shows how. Loaded when first used, so that this package can be imported before Django is set up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduling.testing.broker import Message
    from scheduling.testing.harness import Harness
    from scheduling.testing.run import Run

__all__ = ["Harness", "Message", "Run"]

_HOMES = {"Harness": "harness", "Message": "broker", "Run": "run"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
