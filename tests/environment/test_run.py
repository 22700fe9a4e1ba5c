"""`run` around a command: its status and signals are passed on, and an error is one sentence."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from django.conf import settings

from project.environment.plan import MISSING
from tests.environment.conftest import Run, servers

WAIT = "import signal; [signal.signal(n, lambda n, _: exit(40 + n)) for n in (2, 15)]; print('waiting'); signal.pause()"


@pytest.fixture
def around(run: Run) -> Run:
    """`run` with a Postgres that answers, and no RabbitMQ looked for: only Redis is embedded."""

    def start(*options: str, **words: str) -> object:
        return run(*options, **({"DATABASE_URL": postgres_url(), MISSING: "not looked for"} | words))

    return start  # type: ignore[return-value]


def postgres_url() -> str:
    """A database that exists, on the server of this run."""
    return settings.DATABASE_URL.rpartition("/")[0] + "/postgres"


def test_the_exit_status_of_the_command_is_passed_on(around: Run):
    assert around(line="exit(7)").wait() == 7


def test_a_command_that_a_signal_ends_gives_the_status_of_a_shell(around: Run):
    assert around(line="import os; os.kill(os.getpid(), 9)").wait() == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_command_first_and_the_servers_after_it(
    number: signal.Signals, around: Run, run_dir: Path
):
    process = around(line=WAIT)
    process.wait_for_line("waiting")
    process.send_signal(number)
    assert process.wait() == 40 + number
    assert servers(run_dir) == []


def test_two_runs_do_not_share_a_folder(around: Run):
    first = around(line=WAIT)
    first.wait_for_line("waiting")
    second = around(line="")
    assert second.wait() == 2
    assert f"in use by another run (process {first.process.pid})" in second.output
    assert second.output.count("\n") == 1


def test_a_configured_service_that_does_not_answer_ends_the_run_with_one_sentence(around: Run, tmp_path: Path):
    process = around(
        line="print('ran')", DATABASE_URL="postgresql://me:s3cret@127.0.0.1:1/app", folder=tmp_path / "run"
    )
    assert process.wait() == 2
    assert process.output.startswith("DATABASE_URL postgresql://me:***@127.0.0.1:1/app does not answer: ")
    assert process.output.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_run_whose_nodes_would_want_an_etcd_that_cannot_be_had_ends_with_one_sentence(around: Run):
    process = around(line="print('ran')", FAIRBEAT_COORDINATOR="etcd", ETCD_MISSING="not looked for")
    assert process.wait() == 2
    assert process.output == "FAIRBEAT_COORDINATOR=etcd needs an etcd: not looked for\n"


def test_a_command_that_does_not_exist_is_told(around: Run):
    process = around(command=("no-such-command",))
    assert process.wait() == 127
    assert process.output == "no-such-command cannot be run: No such file or directory\n"


def test_a_folder_that_cannot_be_made_is_told(around: Run, tmp_path: Path):
    (tmp_path / "file").touch()
    process = around(line="", folder=tmp_path / "file" / "run")
    assert process.wait() == 2
    assert process.output.startswith(f"FAIRBEAT_RUN_DIR '{tmp_path}/file/run': no run can keep its files there: ")
    assert process.output.count("\n") == 1
