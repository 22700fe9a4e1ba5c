"""The project's settings, with those in which a fault and what heals it are over within seconds."""

from __future__ import annotations

from typing import Any

from project.settings import *  # noqa: F403
from project.settings import SCHEDULING as DEPLOYED

FIRE_LEASE_S = 6.0  # so that the runs of a killed worker are back before the next fault

SCHEDULING = DEPLOYED | dict[str, Any](FIRE_LEASE_S=FIRE_LEASE_S, FIRE_GRACE_S=2.0)
CELERY_IMPORTS = ["tests.chaos.tasks"]
