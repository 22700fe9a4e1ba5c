"""What tenants were served, against their weights: over a sliding window, in tables, commands and metrics."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from fairness import standings
from fairness.core.standing import TenantStanding
from fairness.models import ServedShare, Tenant
from fairness.observed import as_metrics, observe

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenants() -> dict[str, Tenant]:
    return {slug: Tenant.objects.create(slug=slug, weight=weight) for slug, weight in (("a", 1), ("b", 3), ("c", 6))}


def served(tenant: Tenant, served_s: float, *, minutes_ago: int = 0, backlogged_s: float = 60.0, **more: Any) -> None:
    minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    ServedShare.objects.create(
        minute=minute, tenant=tenant, lane="bulk", weight=tenant.weight, served_s=served_s, backlogged_s=backlogged_s,
        **more,
    )  # fmt: skip


def test_shares_are_told_beside_those_that_weights_give(tenants: dict[str, Tenant]):
    for minute in range(4):
        for slug, part in (("a", 10), ("b", 30), ("c", 60)):
            served(tenants[slug], part, minutes_ago=minute, starts=part)
    found = observe(window_s=120)
    assert [(row.tenant, round(row.share, 3), round(row.due, 3)) for row in found.rows] == [
        ("a", 0.1, 0.1),
        ("b", 0.3, 0.3),
        ("c", 0.6, 0.6),
    ]
    assert found.jain == {"bulk": pytest.approx(1.0)}


def test_jains_index_is_over_those_that_had_something_waiting_all_the_while(tenants: dict[str, Tenant]):
    for minute in range(4):
        served(tenants["a"], 30, minutes_ago=minute)
        served(tenants["b"], 30, minutes_ago=minute)
        served(tenants["c"], 1, minutes_ago=minute, backlogged_s=20)
    found = observe(window_s=120)
    assert [row.is_backlogged for row in found.rows] == [True, True, False]
    assert found.jain["bulk"] == pytest.approx(0.8)  # 1 and 1/3 of their weights


def test_the_window_slides_and_its_first_minute_counts_in_part(tenants: dict[str, Tenant]):
    for minute in range(6):
        served(tenants["a"], 60, minutes_ago=minute)
    found = observe(window_s=180).rows[0]
    since = timezone.now() - ServedShare.objects.latest("minute").minute  # all of this minute is there already
    assert found.served_s == pytest.approx(180 + 60 - since.total_seconds(), abs=3)
    assert observe(window_s=0.001).rows[0].served_s < 60


def test_what_waits_now_has_an_age_and_a_reason(tenants: dict[str, Tenant]):
    connection.ensure_connection()
    common: dict[str, Any] = {"tenant_id": tenants["a"].pk, "lane": "bulk", "weight": 1.0, "in_flight": 2}
    for node, oldest_s in (("n1", 30.0), ("n2", 90.0)):
        row = TenantStanding(waiting=4, reason="rate", until_s=5.0, oldest_s=oldest_s, throttled=1, **common)
        standings.write(connection.connection, node, [row])
    (found,) = observe().rows
    assert (found.waiting, found.in_flight, found.reason, round(found.throttled)) == (8, 4, "rate", 2)
    assert found.backlog_age_s == pytest.approx(90, abs=1)
    assert found.share == 0
    assert found.due == 1


def test_of_some_tenants_only_their_rows_are_read(tenants: dict[str, Tenant]):
    for tenant in tenants.values():
        served(tenant, 10)
    found = observe(tenants={tenants["b"].pk: "b"})
    assert [(row.tenant, row.share) for row in found.rows] == [("b", 0.0)]


@pytest.mark.parametrize("window_s", [0, -1, float("nan"), 86_401])
def test_a_window_that_cannot_be_is_refused(window_s: float):
    with pytest.raises(ValueError, match="window_s"):
        observe(window_s=window_s)


def test_the_command_prints_a_table_and_json(tenants: dict[str, Tenant], capsys: pytest.CaptureFixture[str]):
    for slug in "ab":
        served(tenants[slug], 20, starts=200)
        served(tenants[slug], 20, starts=200, minutes_ago=1)
    call_command("shares", "--window", "30")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["tenant", "lane", "weight"]
    assert lines[1].split()[:3] == ["a", "bulk", "1"]
    assert lines[-1].startswith("the last 30 s; Jain's index: bulk 0.8")

    call_command("shares", "--json")
    told = json.loads(capsys.readouterr().out)
    assert [(row["tenant"], row["share"], row["due"]) for row in told["tenants"]] == [
        ("a", 0.5, 0.25),
        ("b", 0.5, 0.75),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--window=0"], "--window 0: must be above 0, and at most 86400 seconds, a day"),
        (["--window=-5"], "--window -5: must be above 0"),
        (["--window=nan"], "--window nan: must be above 0"),
        (["--window=1e400"], "--window inf: must be above 0"),
        (["--window=90000"], "--window 90000: must be above 0"),
        (["--window=soon"], "argument --window: invalid float value: 'soon'"),
        (["--json", "--metrics"], "argument --metrics: not allowed with argument --json"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence_that_names_the_option(options: list[str], said: str):
    with pytest.raises(CommandError) as refused:
        call_command("shares", *options)
    assert said in str(refused.value)


def test_metrics_are_gauges_of_the_window(tenants: dict[str, Tenant]):
    served(tenants["a"], 20, starts=200)
    told = as_metrics(observe())
    assert 'fairbeat_tenant_share{tenant="a",lane="bulk"} 1\n' in told
    assert "# TYPE fairbeat_jain_index gauge" in told
    assert all(line.startswith("#") or len(line.split(" ")) == 2 for line in told.splitlines())
