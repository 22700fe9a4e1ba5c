"""The settings of the project, with one active node and hot standbys."""

from __future__ import annotations

from project import settings
from project.settings import *  # noqa: F403

SCHEDULING = settings.SCHEDULING | {"GROUPS": 1}
