"""The wall clock that a chaos run gives its nodes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

from tests.chaos.fleet import WRONG_CLOCK

TELL = """
import datetime, os, struct, time
isinstance(datetime.datetime.fromtimestamp(0), datetime.datetime) or exit("a datetime is none")
true = time.clock_gettime(time.CLOCK_REALTIME)
print(round(time.time() - true), round(time.time_ns() / 1e9 - true), round(datetime.datetime.now().timestamp() - true))
before = time.monotonic()
with open(os.environ["FAIRBEAT_CHAOS_CLOCK"], "r+b") as file:
    file.write(struct.pack("d", -5.0))
print(round(time.time() - true), round(datetime.datetime.now(datetime.UTC).timestamp() - true))
print(time.monotonic() - before < 5)
"""


def test_a_process_follows_the_offset_of_its_file_while_it_runs_and_its_monotonic_time_does_not(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("d", 3600.0))
    environ = {**os.environ, "PYTHONPATH": str(WRONG_CLOCK), "FAIRBEAT_CHAOS_CLOCK": str(clock)}
    told = subprocess.run([sys.executable, "-c", TELL], env=environ, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["3600 3600 3600", "-5 -5", "True"]
