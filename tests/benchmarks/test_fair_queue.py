"""The benchmark of the fair queue, in small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_runs_by_itself_and_every_request_is_granted_and_settled():
    environ = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "benchmarks.fair_queue", "--tenants", "600", "--requests", "2500", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["decisions_per_s"] > found["settled_per_s"] > found["whole_path_per_s"] > 0
    assert found["million_keys"]["left"] == 0
