"""A write to the ledger that a database which does not answer only delays, as long as a lease lasts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 2.0

log = logging.getLogger(__name__)

T = TypeVar("T")


def patiently(write: Callable[[], T], what: str, *, for_s: float) -> T:
    """Raises what Django raises where the database does not answer for so long."""
    deadline_s, pause_s = time.monotonic() + for_s, PAUSE_MIN_S
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() + pause_s > deadline_s:
                raise
            log.warning("%s could not be written, trying again: %s", what, error)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
