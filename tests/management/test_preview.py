"""``manage.py preview``: what it prints, what it refuses, and that it asks no database."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fairness.models import Tenant
from scheduling.core.clock import EPOCH
from scheduling.models import Calendar, Job, JobClock

NEW_YORK = ["--tz", "America/New_York"]
BEFORE_THE_GAP = ["--from", "2026-03-08T05:00:00Z"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    call_command("preview", *arguments)
    return capsys.readouterr().out


def entries(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(printed(capsys, *arguments, "--json"))


def test_json_has_the_instant_the_local_time_with_its_offset_and_the_marks(capsys: pytest.CaptureFixture[str]) -> None:
    found = entries(capsys, "--cron", "30 2 * * *", *NEW_YORK, *BEFORE_THE_GAP, "--count", "2")
    assert found == [
        {
            "utc": "2026-03-08T07:00:00Z",
            "local": "2026-03-08T03:00:00-04:00",
            "marks": ["gap"],
            "nominal": ["2026-03-08T02:30:00"],
        },
        {"utc": "2026-03-09T06:30:00Z", "local": "2026-03-09T02:30:00-04:00", "marks": []},
    ]


def test_from_is_exclusive_and_count_is_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    found = entries(capsys, "--every", "30m", "--from", "2026-01-01T00:00:00+01:00", "--count", "3")
    assert [entry["utc"] for entry in found] == ["2025-12-31T23:30:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--cron", "30 2 * * *", "--gap", "shift"], "2026-03-08T07:30:00Z"),
        (["--cron", "30 2 * * *", "--gap", "skip"], "2026-03-09T06:30:00Z"),
        (["--cron", "0 9 13 * fri", "--day-match", "and"], "2026-03-13T13:00:00Z"),
        (["--cron", "0 9 * * *", "--start-at", "2026-04-01T00:00:00Z"], "2026-04-01T13:00:00Z"),
        (["--every", "1h", "--anchor", "2026-03-08T05:07:00Z"], "2026-03-08T05:07:00Z"),
        (["--at", "2026-03-08T09:00:00+01:00"], "2026-03-08T08:00:00Z"),
        (["--rrule", "FREQ=WEEKLY;BYDAY=MO", "--dtstart", "2026-01-01T09:00:00-05:00"], "2026-03-09T13:00:00Z"),
        (["--rrule", "FREQ=WEEKLY;BYDAY=MO"], "2026-03-09T04:00:00Z"),  # at the time of --from
        (["--rrule", "DTSTART:20260101T090000\nRRULE:FREQ=DAILY"], "2026-03-08T13:00:00Z"),
    ],
)
def test_every_kind_and_option_of_a_schedule(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = entries(capsys, *arguments, *NEW_YORK, *BEFORE_THE_GAP, "--count", "1")
    assert [entry["utc"] for entry in found] == [expected]


def test_a_schedule_that_ends_gives_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    assert entries(
        capsys, "--cron", "@daily", "--end-at", "2026-01-02T00:00:00Z", "--from", "2026-01-01T00:00:00Z"
    ) == [{"utc": "2026-01-02T00:00:00Z", "local": "2026-01-02T00:00:00+00:00", "marks": []}]
    assert "nothing more" in printed(capsys, "--at", "2026-01-01T00:00:00Z", "--from", "2026-01-01T00:00:00Z")


def test_closed_times_and_jitter_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    closed = '{"days": ["2026-03-09"], "hours": [{"begins": "08:00", "ends": "10:00", "weekdays": [2]}]}'
    found = entries(
        capsys, "--cron", "0 9 * * *", *NEW_YORK, *BEFORE_THE_GAP, "--calendar", closed, "--jitter", "10m",
        "--id", "00000000-0000-0000-0000-000000000007", "--count", "4",
    )  # fmt: skip
    assert [entry["marks"] for entry in found] == [
        ["jittered"], ["excluded", "jittered"], ["excluded", "jittered"], ["jittered"]
    ]  # fmt: skip
    assert found[0]["utc"] < found[0]["fire_at"] < "2026-03-08T13:10:00Z"


def test_text_says_it_in_words_and_warns_below(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--cron", "0,30 2 * * 1-7", *NEW_YORK, *BEFORE_THE_GAP, "--count", "1").splitlines()
    assert out[0].startswith("At 02:00 and 02:30, ")
    assert out[0].endswith(", America/New_York")
    assert out[1] == (
        "  Sun 2026-03-08 03:00:00-04:00  2026-03-08T07:00:00Z  gap"
        " (stands for 2026-03-08 02:00:00, 2026-03-08 02:30:00)"
    )
    assert out[2] == "warning: America/New_York skips 2026-03-08 02:00; there it fires by gap=first_valid"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "schedule []: give exactly one of --cron, --every, --rrule, --at"),
        (["--cron", "* * * * *", "--every", "1h"], "give exactly one of"),
        (["--cron", "61 * * * *"], "cron '61 * * * *': minute '61' at character 1: is not in 0-59"),
        (["--every", "1"], "every '1': a unit is missing"),
        (["--every", "50ms"], "is shorter than 100 ms"),
        (["--rrule", "FREQ=SECONDLY"], "rrule 'FREQ=SECONDLY'"),
        (["--at", "tomorrow"], "at 'tomorrow': is not an ISO 8601 instant"),
        (["--at", "2026-01-01T00:00:00"], "at '2026-01-01T00:00:00': has no time zone"),
        (["--cron", "@daily", "--tz", "Europe/Pari"], "did you mean Europe/Paris?"),
        (["--cron", "@daily", "--from", "2026-01-01"], "from '2026-01-01': has no time zone"),
        (["--cron", "@daily", "--count", "many"], "count 'many': is not a whole number"),
        (["--cron", "@daily", "--count", "0"], "count 0: is not in 1-1000"),
        (["--cron", "@daily", "--gap", "leap"], "gap 'leap': is not one of first_valid, shift, skip"),
        (["--cron", "@daily", "--calendar", "[3]"], "calendar '[3]'"),
        (["--cron", "@daily", "--calendar", '{"hours": 3}'], "hours 3: is not a list"),
        (["--cron", "@daily", "--id", "me"], "id 'me': is not a UUID"),
        (["--cron", "@daily", "--jitter=-5s"], "jitter"),
        (["--at", "9999-12-31T23:59:59Z", "--tz", "Pacific/Kiritimati"], "outside the years 1 to 9999"),
        (["--job", "acme/x", "--cron", "@daily"], "job 'acme/x': has a schedule of its own; leave --cron out"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(CommandError) as refusal:
        call_command("preview", *arguments)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_no_database_is_needed_and_an_error_is_no_traceback() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", "preview", *arguments],
            cwd=Path(__file__).resolve().parents[2],
            env={"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )

    good = run("--cron", "0 9 * * mon-fri", "--tz", "Europe/Paris", "--from", "2026-01-02T12:00:00Z", "--count", "1")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout == (
        "At 09:00, Monday to Friday, Europe/Paris\n  Mon 2026-01-05 09:00:00+01:00  2026-01-05T08:00:00Z\n"
    )
    bad = run("--job", "acme/report")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "Traceback" not in bad.stderr
    assert len(bad.stderr.splitlines()) == 1


@pytest.mark.django_db
def test_a_job_is_shown_as_its_row_stands(capsys: pytest.CaptureFixture[str]) -> None:
    JobClock.objects.create(job_origin=datetime(2026, 3, 2, tzinfo=UTC), real_origin=None)
    calendar = Calendar.objects.create(name="holidays", days=[datetime(2026, 3, 3, tzinfo=UTC).date()])
    tenant = Tenant.objects.create(slug="acme")
    job = Job.objects.every(
        "t", timedelta(hours=12), anchor=EPOCH, name="daily/report", tenant=tenant, tz="Asia/Kolkata",
        calendar=calendar, jitter=timedelta(hours=1), max_runs=3,
    )  # fmt: skip
    Job.objects.update(fired=1)

    found = entries(capsys, "--job", "acme/daily/report")
    assert [(entry["local"], entry["marks"]) for entry in found] == [
        ("2026-03-02T17:30:00+05:30", ["jittered"]),
        ("2026-03-03T05:30:00+05:30", ["excluded", "jittered"]),
        ("2026-03-03T17:30:00+05:30", ["excluded", "jittered"]),
        ("2026-03-04T05:30:00+05:30", ["jittered"]),
    ]
    job.refresh_from_db()
    assert [entry.as_json() for entry in job.preview(6)] == found
    assert entries(capsys, "--job", str(job.pk), "--from", "2026-03-05T00:00:00Z", "--count", "1")[0]["utc"][:10] == (
        "2026-03-05"
    )
    with pytest.raises(CommandError, match="job 'acme/nothing': there is no such job"):
        call_command("preview", "--job", "acme/nothing")
