"""What the demo gives the tenants of its own jobs, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairness.models import Tenant
from project.demo import stage
from project.demo.options import OWN_JOBS, Options

pytestmark = pytest.mark.django_db


def terms() -> dict[str, tuple[float, float | None, int]]:
    rows = Tenant.objects.exclude(slug="default").values_list("slug", "weight", "rate_per_s", "burst")
    return {slug: (weight, rate, burst) for slug, weight, rate, burst in rows}


@pytest.mark.parametrize(("speed", "drones_per_s"), [(0.5, 10), (1, 10), (60, 600)])
def test_its_own_tenants_have_weights_and_rates_that_go_as_fast_as_job_time(speed: float, drones_per_s: float):
    assert stage.bring_jobs(OWN_JOBS) == []
    stage.give_terms(Options(speed=speed))
    assert terms() == {
        "acme": (3.0, 10 * drones_per_s, 10 * drones_per_s),
        "bakery": (1.0, 10 * drones_per_s, 10 * drones_per_s),
        "clinic": (1.0, None, 1),
        "drones": (1.0, drones_per_s, drones_per_s),
        "elephant": (1.0, None, 1),
    }
    assert stage.a_job() == "drones/read telemetry"


def test_somebodys_own_jobs_keep_what_their_tenants_have(tmp_path: Path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text('{"tenant": "acme", "name": "report", "cron": "0 6 * * *"}')
    stage.bring_jobs(jobs)
    stage.give_terms(Options(jobs=jobs))
    assert terms() == {"acme": (1.0, None, 1)}
    assert stage.a_job() == "acme/report"
