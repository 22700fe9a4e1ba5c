"""The code's schedule, looked at now and then, and brought to its jobs when it has changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from celery import Celery
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from scheduling.conf import scheduling_settings
from scheduling.services.read_entry import CodeSchedule, read_schedule
from scheduling.services.sync_entries import Change, sync_entries

logger = logging.getLogger(__name__)
LEVELS = {Change.REFUSED: logging.ERROR, Change.DELETED: logging.WARNING}


class CodeSync:
    """Of one app; at most one look in ``look_s`` seconds. What becomes of each entry is in the log."""

    def __init__(self, app: Celery[Any], *, look_s: float) -> None:
        self._app, self._look_s = app, look_s
        self._look_at = 0.0
        self._synced: CodeSchedule | None = None

    def look(self, said: Mapping[str, Any]) -> None:
        """Bring ``said`` to its jobs, if it is time to look and it is not what it was. What fails is tried again."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + self._look_s
        read = read_schedule(self._app, said)
        if read == self._synced:
            return
        try:
            self._sync(read)
            self._synced = read
        except DatabaseError as problem:
            logger.error("beat_schedule was not brought to its jobs, trying again: %s", str(problem).strip())
        finally:
            connection.close()  # this thread has no other use for it

    def _sync(self, read: CodeSchedule) -> None:
        definitions = {name: entry.definition for name, entry in read.entries.items()}
        policy = scheduling_settings(settings).CODE_JOBS
        for verdict in sync_entries(self._app.main or "celery", definitions, read.refused, policy=policy):
            if verdict.detail or verdict.change is Change.NEW:
                logger.log(LEVELS.get(verdict.change, logging.INFO), "beat_schedule entry %s", verdict)
        for name, entry in read.entries.items():
            if entry.notes:
                logger.warning("beat_schedule entry %r: not honoured: %s", name, "; ".join(entry.notes))
