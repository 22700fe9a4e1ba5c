"""The project's settings, with keys of ``SCHEDULING`` that a benchmark sets: ``FAIRBEAT_BENCH_SCHEDULING``, as JSON."""

from __future__ import annotations

import json
import os

from project.settings import *  # noqa: F403
from project.settings import SCHEDULING as DEPLOYED

SCHEDULING = DEPLOYED | json.loads(os.environ.get("FAIRBEAT_BENCH_SCHEDULING") or "{}")
