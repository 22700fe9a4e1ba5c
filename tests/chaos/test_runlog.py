"""The log of runs: what is known of a run whose process was killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.chaos import runlog
from tests.processes import ROOT

FIRE = uuid4()
BEGIN = """
import sys
from uuid import UUID
from tests.chaos import runlog

runlog.write_began(UUID(sys.argv[1]), fence=1, holder=UUID(sys.argv[2]), asked_ns=0)
sys.stdout.write("begun" + chr(10))
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(runlog.VARIABLE, str(tmp_path / "runs.log"))
    runlog._log.cache_clear()
    yield tmp_path / "runs.log"
    runlog._log.cache_clear()


def test_the_next_run_tells_of_a_run_before_it_whether_its_process_is_gone(log: Path) -> None:
    first, second, third = uuid4(), uuid4(), uuid4()
    command = [sys.executable, "-c", BEGIN, str(FIRE), str(first)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        runlog.write_began(FIRE, fence=2, holder=second, asked_ns=0)
        process.kill()
    runlog.write_began(FIRE, fence=3, holder=third, asked_ns=0)

    runs = {run.holder: run for run in runlog.read(log.read_text().splitlines())}

    gone_ns = runs[first].ended_ns
    assert gone_ns is not None
    assert runs[second].began_ns < gone_ns < runs[third].began_ns
    assert runs[second].ended_ns is None, "this process is not gone"
