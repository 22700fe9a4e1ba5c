"""``manage.py explain``: what it prints, and how it fails."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from scheduling.models import Fire, Job, Node, Shard
from tests.fires import make_fire

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    now = timezone.now()
    node = Node.objects.create(id="n1", started_at=now, lease_until=now + timedelta(minutes=5))
    Shard.objects.update(owner=node)
    return Job.objects.cron("t", "0 6 1 1 *", name="report", overlap="buffer_all")


@pytest.fixture
def fires(job: Job) -> list[Fire]:
    """One that is on its way, and one that waits for it."""
    now = timezone.now()
    first = make_fire(job, now - timedelta(minutes=2), confirmed=True)
    second = make_fire(
        job, now - timedelta(minutes=1), state="parked", reason="overlap", wake_at=now + timedelta(seconds=5)
    )
    return [first, second]


def test_it_says_what_is_next_and_why_each_fire_waits(
    job: Job, fires: list[Fire], capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("explain", "default/report")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("default/report: due at 2")
    assert lines[2].startswith("  its schedule: 2")
    assert "sent to a task that no worker has registered" in lines[3]
    assert lines[4].endswith("its job's runs may not overlap, and 1 before it are unfinished")
    assert lines[5].startswith(f"  behind {fires[0].id} of ")


def test_it_prints_one_object_of_json(job: Job, fires: list[Fire], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("explain", str(job.pk), "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["reason"], told["paused"], told["held_since"]) == (
        "default/report",
        "not_due",
        None,
        None,
    )
    assert [fire["reason"] for fire in told["fires"]] == ["sent", "overlap"]
    assert len(told["coming"]) == 3
    assert told["expected_at"] == told["due_at"]

    call_command("explain", "--fire", str(fires[1].id), "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["fire"], told["reason"], told["ahead"]) == (str(fires[1].id), "overlap", 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["default/none"], "there is no such job"),
        ([], "name a job, or a fire"),
        (["default/none", "--fire", "x"], "name a job, or a fire"),
        (["--fire", "x"], "is no id"),
        (["--fire", "01900000-0000-8000-8000-000000000000"], "there is no such fire"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_a_sentence(arguments: list[str], said: str, job: Job) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("explain", *arguments)
