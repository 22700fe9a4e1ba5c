from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from scheduling.models import JobClock
from tests import committed
from tests.store import conftest as of_stores

committed_db = committed.committed_db
test_database = committed.test_database
in_thread = of_stores.in_thread
open_session = of_stores.open_session

SetTime = Callable[[datetime], None]


@pytest.fixture
def set_time(db: None) -> SetTime:
    """Job time stands at this moment."""

    def stand(moment: datetime) -> None:
        JobClock.objects.update_or_create(id=1, defaults={"job_origin": moment, "real_origin": None})

    return stand
