"""NOTIFY as a hint to the owner of a shard: look now, do not wait for your poll.

A hint may be lost; polling is the truth. NOTIFY takes a database-wide lock at commit, so hints are sent for what is due
soon only, and at most one for each shard in ``QUIET_S`` from one process.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.db import connections

CHANNEL = "fairbeat"
SOON = timedelta(seconds=2)
QUIET_S = 0.02

_hinted_at: dict[tuple[str, int], float] = {}


def hint_due(shard: int, fire_at: datetime, *, now: datetime, using: str) -> None:
    """Hint within the current transaction, if ``fire_at`` is soon (job time)."""
    if fire_at - now > SOON:
        return
    instant = time.monotonic()
    if instant - _hinted_at.get((using, shard), -QUIET_S) < QUIET_S:
        return
    _hinted_at[using, shard] = instant
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(shard)])
