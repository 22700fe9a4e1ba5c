"""Importing a file of jobs: the verdict of each line, and what is in the database behind it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fairness.models import Tenant
from scheduling.core.clock import EPOCH
from scheduling.models import Job
from scheduling.services.import_jobs import Change, Verdict, import_jobs

pytestmark = pytest.mark.django_db

PERIODICS = Path(__file__).resolve().parents[3] / "shared/data/prow-periodics.jsonl"

GOOD: dict[str, Any] = {"tenant": "acme", "name": "report", "cron": "0 6 * * *", "task": "acme.report"}


def lines(*values: Any) -> list[bytes]:
    return [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]


def imported(*values: Any, **options: Any) -> list[Verdict]:
    return import_jobs(lines(*values), **options)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


def test_a_line_becomes_a_planned_job_of_a_tenant_that_is_made():
    [verdict] = imported(GOOD)

    job = Job.objects.get(tenant__slug="acme", name="report")
    assert (verdict.line, verdict.change, verdict.tenant, verdict.name) == (1, Change.NEW, "acme", "report")
    assert (job.task, job.cron, job.tz, job.overlap) == ("acme.report", "0 6 * * *", "UTC", "allow")
    assert job.next_scheduled_for is not None
    assert job.next_scheduled_for.hour == 6


def test_an_interval_counts_from_the_unix_epoch_unless_the_line_gives_an_anchor():
    anchor = "2026-01-01T00:07:00+01:00"
    line = without("cron")
    imported(line | {"name": "epoch", "interval": "1h30m"}, line | {"name": "own", "interval": "6h", "anchor": anchor})

    assert Job.objects.get(name="epoch").every == timedelta(minutes=90)
    assert Job.objects.get(name="epoch").anchor == EPOCH
    assert Job.objects.get(name="own").anchor == datetime(2025, 12, 31, 23, 7, tzinfo=UTC)


def test_minimum_interval_is_an_interval_and_the_verdict_says_so():
    [verdict] = imported(without("cron") | {"minimum_interval": "168h"})

    assert Job.objects.get().every == timedelta(days=7)
    assert "minimum_interval is read as an interval" in verdict.detail


def test_a_step_after_a_single_value_is_written_out_and_the_verdict_says_so():
    [verdict] = imported(GOOD | {"cron": "0 1/6 * * *"})

    assert Job.objects.get().cron == "0 1-23/6 * * *"
    assert verdict.detail == "cron '0 1/6 * * *' is read as '0 1-23/6 * * *'"


def test_max_concurrency_queues_runs_and_timeout_limits_them_in_real_seconds():
    imported(GOOD | {"max_concurrency": 1, "timeout": "4h30m0s"}, GOOD | {"name": "free", "max_concurrency": 0})

    job = Job.objects.get(name="report")
    assert (job.overlap, job.buffer_limit, job.hard_timeout_s) == ("buffer_all", 10_000, 16_200)
    assert Job.objects.get(name="free").overlap == "allow"


def test_arguments_zone_lane_and_task_come_from_the_line():
    extra = {"args": [1, "a\tb\\"], "kwargs": {"deep": {"é": None}}, "tz": "Europe/Paris", "lane": "transactional"}
    imported(GOOD | extra)

    job = Job.objects.get()
    assert {"args": job.args, "kwargs": job.kwargs, "tz": job.tz, "lane": job.lane} == extra


def test_a_default_task_serves_the_lines_without_one():
    imported(without("task"), GOOD | {"name": "own"}, default_task="demo.effect")

    assert Job.objects.get(name="report").task == "demo.effect"
    assert Job.objects.get(name="own").task == "acme.report"


REFUSED: list[tuple[Any, str]] = [
    (b"{oops", "is not JSON"),
    (b"\xff\xfe{}", "cannot be read"),
    (b"[" * 100_000, "cannot be read"),
    (b'{"tenant": "acme", "name": "\\ud800", "cron": "* * * * *", "task": "t"}', "surrogates not allowed"),
    ([1], "is not a JSON object"),
    (without("tenant"), "tenant None"),
    (without("name"), "name None"),
    (without("task"), "task None"),
    (without("cron"), "exactly one of cron, interval, minimum_interval"),
    (GOOD | {"interval": "1h"}, "exactly one of cron, interval, minimum_interval"),
    (GOOD | {"tenant": "Acme Inc"}, "tenant 'Acme Inc'"),
    (GOOD | {"tenant": "acme\n"}, "tenant 'acme\\n'"),
    (GOOD | {"name": 7}, "name 7"),
    (GOOD | {"name": "x" * 201}, "longer than 200"),
    (GOOD | {"name": "nul\0"}, "NUL"),
    (GOOD | {"crom": "* * * * *"}, "crom '* * * * *': no such key"),
    (GOOD | {"cron": "61 * * * *"}, "minute '61'"),
    (GOOD | {"cron": 5}, "cron 5"),
    (GOOD | {"cron": " " * 250 + "* * * * *"}, "cron"),
    (GOOD | {"tz": "Europe/Pari"}, "tz 'Europe/Pari'"),
    (GOOD | {"tz": None}, "tz None"),
    (GOOD | {"anchor": "2026-01-01T00:00:00Z"}, "goes with an interval only"),
    (without("cron") | {"interval": 30}, "interval 30"),
    (without("cron") | {"interval": "30"}, "interval '30': a unit is missing"),
    (without("cron") | {"interval": "1ms"}, "interval '1ms': is shorter than 100 ms"),
    (without("cron") | {"interval": "-1h"}, "interval '-1h': is not above zero"),
    (without("cron") | {"interval": "1h", "tz": "Mars"}, "tz 'Mars'"),
    (without("cron") | {"interval": "1h", "anchor": "2026-01-01T00:00:00"}, "has no time zone"),
    (without("cron") | {"interval": "1h", "anchor": 5}, "anchor 5"),
    (GOOD | {"timeout": "0s"}, "timeout '0s'"),
    (GOOD | {"timeout": None}, "timeout None"),
    (GOOD | {"max_concurrency": -1}, "max_concurrency -1"),
    (GOOD | {"max_concurrency": "1"}, "max_concurrency '1'"),
    (GOOD | {"max_concurrency": True}, "max_concurrency True"),
    (GOOD | {"lane": "fast"}, "lane 'fast'"),
    (GOOD | {"args": {"a": 1}}, "args"),
    (GOOD | {"kwargs": []}, "kwargs []"),
    (GOOD | {"args": ["x" * 300_000]}, "arguments take"),
    (b'{"tenant": "acme", "name": "n", "cron": "* * * * *", "task": "t", "args": [NaN]}', "args"),
]


@pytest.mark.parametrize(("bad", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_bad_line_is_refused_with_its_number_and_stops_no_other(bad: Any, reason: str):
    first, refused, last = imported(GOOD | {"name": "before"}, bad, GOOD | {"name": "after"})

    assert (refused.line, refused.change) == (2, Change.REFUSED)
    assert reason in refused.detail
    assert (first.change, last.change) == (Change.NEW, Change.NEW)
    assert set(Job.objects.values_list("name", flat=True)) == {"before", "after"}


def test_a_refused_line_makes_no_tenant():
    imported(GOOD | {"tenant": "other", "cron": "nonsense"})

    assert not Tenant.objects.filter(slug="other").exists()


def test_the_second_line_of_one_job_is_refused():
    _, second = imported(GOOD, GOOD | {"cron": "0 7 * * *"})

    assert (second.change, second.detail) == (Change.REFUSED, "name 'report': line 1 has this job already")
    assert Job.objects.get().cron == "0 6 * * *"


def test_blank_lines_are_left_out_and_counted():
    assert [verdict.line for verdict in imported(b"", GOOD, b"  \r")] == [2]


def test_importing_twice_changes_nothing():
    interval = without("cron") | {"name": "poll", "interval": "5m"}
    imported(GOOD, interval)
    before = list(Job.objects.values())

    assert [verdict.change for verdict in imported(GOOD, interval)] == [Change.SAME, Change.SAME]
    assert list(Job.objects.values()) == before


def test_a_changed_line_changes_its_job_and_leaves_what_the_format_cannot_say():
    imported(GOOD)
    Job.objects.update(description="by hand", misfire="skip")
    [verdict] = imported(GOOD | {"cron": "0 7 * * *", "timeout": "1m"})

    job = Job.objects.get()
    assert (verdict.change, verdict.detail) == (Change.CHANGED, "cron, hard_timeout_s")
    assert (job.cron, job.hard_timeout_s, job.description, job.misfire) == ("0 7 * * *", 60, "by hand", "skip")
    assert job.schedule_version == 2


def test_a_change_that_goes_against_what_a_person_set_is_refused():
    imported(GOOD)
    Job.objects.update(soft_timeout_s=300)
    [verdict] = imported(GOOD | {"timeout": "1m"})

    assert verdict.change is Change.REFUSED
    assert "soft_timeout_s 300.0" in verdict.detail
    assert Job.objects.get().hard_timeout_s == 3600


def test_a_dry_run_comes_to_the_same_verdicts_and_writes_nothing():
    imported(GOOD, GOOD | {"name": "same"})
    file = [GOOD | {"cron": "0 7 * * *"}, GOOD | {"name": "same"}, GOOD | {"tenant": "new", "name": "n"}, [], GOOD]

    dry = imported(*file, dry_run=True)
    assert [verdict.change.value for verdict in dry] == ["changed", "same", "new", "refused", "refused"]
    assert Job.objects.get(name="report").cron == "0 6 * * *"
    assert not Tenant.objects.filter(slug="new").exists()
    assert imported(*file) == dry


def test_a_deleted_job_is_not_found_again():
    imported(GOOD)
    Job.objects.update(deleted_at=datetime(2026, 1, 1, tzinfo=UTC))

    assert imported(GOOD)[0].change is Change.NEW


def test_the_command_prints_verdicts_and_fails_when_a_line_was_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(b"\n".join(lines(GOOD, GOOD | {"name": "bad", "cron": "x"})))

    with pytest.raises(CommandError, match=r"^1 of 2 lines were refused, the first is line 2: refused: cron 'x'"):
        call_command("import_jobs", str(file), "--dry-run")
    out = capsys.readouterr().out
    assert "line 1: new acme/report\n" in out
    assert "1 new, 0 same, 0 changed, 1 refused (dry run: nothing was written)" in out
    assert not Job.objects.exists()


def test_the_command_lists_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(lines(GOOD)[0])
    call_command("import_jobs", str(file), "--json")

    assert json.loads(capsys.readouterr().out) == [
        {"line": 1, "change": "new", "tenant": "acme", "name": "report", "detail": "", "cautions": []}
    ]


def test_the_command_names_a_file_that_is_not_there():
    with pytest.raises(CommandError, match="file '/no/such': No such file or directory"):
        call_command("import_jobs", "/no/such")


@pytest.mark.skipif(not PERIODICS.exists(), reason="the file of real periodic jobs is not beside this checkout")
def test_a_real_file_of_1335_jobs_comes_in_with_few_statements_and_a_second_time_changes_nothing():
    file = PERIODICS.read_bytes().split(b"\n")
    with CaptureQueriesContext(connection) as first:
        verdicts = import_jobs(file, default_task="demo.effect")
    refused = {v.line: v.detail for v in verdicts if v.change is Change.REFUSED}
    assert refused == {
        1028: "cron '0 0 31 2 *': never fires: no month of these has a day 31",
        1271: "cron '0 0 30 2 *': never fires: no month of these has a day 30",
    }
    assert Job.objects.count() == 1333
    assert Job.objects.values("tenant").distinct().count() == 66
    assert len(first) < 66 * 8

    again = import_jobs(file, default_task="demo.effect")
    assert [verdict.change for verdict in again].count(Change.SAME) == 1333
