"""A process under test is as one that a person started, however the tests were started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.processes import Spawned


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """What a shell's ``make test &`` inherits."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_background")
def test_it_ends_by_sigint_where_the_tests_run_in_the_background():
    sleeper = "import time; print('ready'); time.sleep(600)"
    process = Spawned([sys.executable, "-c", sleeper], os.environ)
    try:
        process.wait_for_line("ready")
        process.send_signal(signal.SIGINT)

        assert process.wait(timeout_s=30) == -signal.SIGINT
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        process.stop()
