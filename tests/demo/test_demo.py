"""The demo as a person runs it: what it prints, how it ends, and what it leaves."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from django.conf import settings

from fairness.queues import QueuePlan
from project.demo import queues
from project.demo.models import Effect
from project.environment.plan import LOCAL_RABBITMQ
from project.environment.urls import is_amqp
from scheduling.core.errors import ServiceUnreachable
from scheduling.core.recurrence import Interval, occurrences
from scheduling.models import Fire, JobClock, Node
from tests.processes import PATIENCE_S, Spawned, eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

JOBS = [
    {"tenant": "acme", "name": "each minute", "cron": "* * * * *"},
    {"tenant": "acme", "name": "each 90 s", "interval": "90s", "max_concurrency": 1},
    {"tenant": "zen", "name": "at a quarter past", "cron": "15 * * * *", "tz": "Asia/Kathmandu"},
    {"tenant": "zen", "name": "never", "cron": "0 0 30 2 *"},
]

Demo = Callable[..., Spawned]


@pytest.fixture
def demo(process_env: dict[str, str], tmp_path: Path) -> Iterator[Demo]:
    """Start the demo in the test's database, with its files in a folder of the test's."""
    running: list[Spawned] = []
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("\n".join(json.dumps(job) for job in JOBS))

    def start(**environ: str) -> Spawned:
        own = {"FAIRBEAT_RUN_DIR": str(tmp_path / "run"), "JOBS": str(jobs), **environ}
        running.append(Spawned([sys.executable, "-m", "project.demo"], process_env | own))
        return running[-1]

    yield start
    for process in running:
        process.stop()
        sys.stdout.write(process.output)
    url = settings.CELERY_BROKER_URL if is_amqp(settings.CELERY_BROKER_URL) else LOCAL_RABBITMQ
    with suppress(ServiceUnreachable):  # one that was killed has left its queues there, if it was there
        queues.remove(url, QueuePlan(prefix=queues.prefix_for(process_env["DATABASE_URL"])), ["default", "acme", "zen"])


def test_an_hour_of_schedule_in_a_few_seconds_is_played_and_counted(demo: Demo):
    process = demo(SECONDS="6", SPEED="600")
    status = process.wait()

    found = json.loads(process.lines[-1])
    begin, end = datetime.fromisoformat(found["from"]), datetime.fromisoformat(found["to"])
    half_minutes = occurrences(Interval(timedelta(seconds=90), begin.replace(hour=0)), after=begin, until=end)
    assert end - begin == timedelta(hours=1)
    assert found["fires"] == 60 + len(list(half_minutes)) + 1
    assert found["runs"] == found["fires"] == Effect.objects.count()
    assert (found["jobs"], found["skipped"], found["lost"], found["duplicate_effects"]) == (3, {}, 0, 0)
    assert found["broker"] in ("redis", "rabbitmq")
    for latency in ("fire_latency_ms", "start_latency_ms"):
        assert 0 <= found[latency]["p50"] <= found[latency]["p99"] <= found[latency]["max"]
    assert status == 0
    assert "not imported: line 4: refused: cron '0 0 30 2 *'" in process.output
    assert "manage.py shares   why it waits: " in process.output
    assert JobClock.objects.now() == end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_until_it_is_stopped_and_leaves_no_process_behind(number: signal.Signals, demo: Demo):
    process = demo(SPEED="60")
    address = process.wait_for_line("admin: ").split()[1]
    assert b"Log in" in urlopen(address).read()
    eventually(lambda: Fire.objects.filter(state="succeeded").exists())
    family = psutil.Process(process.process.pid).children(recursive=True)
    process.send_signal(number)

    assert process.wait() == 128 + number
    assert not [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert "Traceback" not in process.output
    assert set(Node.objects.values_list("id", flat=True)) == {"demo-1", "demo-2"}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells children of a killed parent on Linux only")
def test_its_processes_end_with_it_even_if_it_is_killed(demo: Demo):
    process = demo()
    process.wait_for_line("admin: ")
    family = psutil.Process(process.process.pid).children(recursive=True)
    ours = [child for child in family if "manage.py" in " ".join(child.cmdline()) or "celery" in child.cmdline()]
    assert len(ours) >= 4
    process.send_signal(signal.SIGKILL)

    _, alive = psutil.wait_procs(ours, timeout=PATIENCE_S)
    for server in {*family} - {*ours}:  # embedded servers live on, for the next run to find; this test has none
        with suppress(psutil.NoSuchProcess):
            server.kill()
    assert not alive


def test_a_process_that_dies_stops_it_with_the_end_of_its_log(demo: Demo):
    process = demo()
    process.wait_for_line("admin: ")
    family = psutil.Process(process.process.pid).children(recursive=True)
    [node] = [child for child in family if "demo-2" in child.cmdline()]
    node.kill()

    assert process.wait() == 2
    assert "demo-2 ended early with status -9; the end of " in process.output
    assert "node demo-2 is running" in process.output


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"SPEED": "fast"}, "SPEED 'fast': is not a number"),
        ({"JOBS": __file__}, "there is no job in it"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(environ: dict[str, str], sentence: str, demo: Demo):
    process = demo(**environ)

    assert process.wait() == 2
    assert sentence in process.output
    assert "Traceback" not in process.output
