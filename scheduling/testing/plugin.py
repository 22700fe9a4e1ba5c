"""The pytest plugin: the fixture ``fairbeat``, for tests that use the database of pytest-django.

::

    @pytest.mark.django_db
    def test_a_reminder_goes_out_after_a_day(fairbeat):
        sign_up("ada")
        fairbeat.run_for(timedelta(days=1))
        assert Reminder.objects.count() == 1

Nothing is imported before a test asks for it, so that the plugin disturbs no project.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scheduling.testing.harness import Harness


@pytest.fixture
def fairbeat(db: None) -> Iterator[Harness]:  # noqa: ARG001  (pytest-django's; `transaction=True` of the mark counts)
    """A ``scheduling.testing.Harness``: nodes, broker and workers of a test, whose clock stands until it is moved."""
    from scheduling.testing.harness import Harness

    with Harness() as harness:
        yield harness
