"""The command scheduler: what it refuses. (Nodes that run are in `tests/node`.)"""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


@pytest.mark.parametrize("capacity", ["0", "-1", "inf", "nan", "much"])
def test_a_capacity_that_is_no_number_above_0_is_refused(capacity: str) -> None:
    with pytest.raises(CommandError, match=f"argument --capacity: '{capacity}' is not a number above 0"):
        call_command("scheduler", f"--capacity={capacity}")
