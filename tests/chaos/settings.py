"""The project's settings, with those in which a fault and what heals it are over within seconds."""

from __future__ import annotations

import os
from typing import Any

from project.settings import *  # noqa: F403
from project.settings import SCHEDULING as DEPLOYED

FIRE_LEASE_S = 6.0  # so that the runs of a killed worker are back before the next fault

SHARDS_VARIABLE = "FAIRBEAT_CHAOS_SHARDS"  # they grow in the course of a run

SCHEDULING = DEPLOYED | dict[str, Any](
    FIRE_LEASE_S=FIRE_LEASE_S,
    FIRE_GRACE_S=2.0,
    START_PATIENCE_S=3.0,
    FAIRNESS="fair",
    SHARDS=int(os.environ.get(SHARDS_VARIABLE) or DEPLOYED["SHARDS"] or 64),
)
CELERY_IMPORTS = ["tests.chaos.tasks"]
