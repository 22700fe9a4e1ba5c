"""Arguments on the pages: secrets are hidden from who may not edit, and what cannot be read is refused at its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scheduling.models import Fire, Job, JobRun, Step
from tests.admin.test_job_form import errors, new
from tests.fires import NOON
from tests.ledger_rows import add_fire, add_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(db: None) -> Client:
    """May see everything, and change nothing."""
    user = User.objects.create(username="viewer", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def fire() -> Fire:
    job = Job.objects.cron("t", "@daily", name="report", kwargs={"customer": 42, "api_key": "k-123"}, args=["<b>"])
    return add_fire(job, NOON, state="running", cancel_reason="too slow")


def page(client: Client, row: Any) -> str:
    return client.get(reverse(f"admin:scheduling_{row._meta.model_name}_change", args=[row.pk])).content.decode()


def test_who_may_only_look_at_a_job_sees_no_secret_and_who_may_edit_sees_what_he_edits(
    fire: Fire, viewer: Client, admin_client: Client
) -> None:
    seen = page(viewer, fire.job)
    assert "k-123" not in seen
    assert "&quot;api_key&quot;: &quot;********&quot;" in seen
    assert "&lt;b&gt;" in seen
    assert "k-123" in page(admin_client, fire.job)


def test_the_page_of_a_fire_shows_arguments_steps_and_what_it_was_asked(fire: Fire, admin_client: Client) -> None:
    Step.objects.create(fire_id=fire.pk, name="charge", fence=1, scheduled_for=NOON, begun_at=NOON, is_done=True)
    Step.objects.create(fire_id=fire.pk, name="mail", fence=1, scheduled_for=NOON, begun_at=NOON)
    seen = page(admin_client, fire)
    assert "k-123" not in seen
    assert "&quot;customer&quot;: 42" in seen
    assert "charge: 2026-03-02 12:00:00 UTC, done" in seen
    assert "mail: 2026-03-02 12:00:00 UTC, begun under fence 1, not known to be done" in seen
    assert "asked to stop: too slow" in seen


def test_the_pages_of_runs_say_how_they_ended(fire: Fire, admin_client: Client) -> None:
    ended = {"timed_out": "timed out", "snoozed": "snoozed", "cancelled": "cancelled", "lost": "lost"}
    for fence, state in enumerate(ended, 1):
        fire.fence = fence
        run = add_run(fire, state=state, attempt=fence, error="first line\nsecond", traceback="<frame>")
    listed = admin_client.get(reverse("admin:scheduling_jobrun_changelist"), {"when": "all"}).content.decode()
    of_fire = page(admin_client, fire)
    for words in ended.values():
        assert f">{words}</td>" in listed
        assert f"</a>: {words} after" in of_fire
    assert ("first line" in listed, "second" in listed) == (True, False)
    assert "<pre>&lt;frame&gt;</pre>" in page(admin_client, run)


@pytest.mark.parametrize("model", [Job, Fire, JobRun], ids=lambda model: model.__name__)
def test_the_lists_read_no_arguments(model: Any, fire: Fire, admin_client: Client) -> None:
    add_run(fire)
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(reverse(f"admin:scheduling_{model._meta.model_name}_changelist"), {"when": "all"})
    assert not [query for query in queries.captured_queries if '"kwargs"' in query["sql"]]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("[" * 5000 + "]" * 5000, "can be read"),
        (f"[{'1' * 5000}]", "can be read"),
        ("[" * 100 + "]" * 100, "is nested in more than 64"),
        ("[NaN]", "args[0] is nan"),
        (json.dumps(["x" * 300_000]), "more than 262144"),
    ],
)
def test_arguments_that_cannot_be_are_refused_at_their_field(typed: str, words: str, admin_client: Client) -> None:
    answer = new(admin_client, args=typed)
    assert words in " ".join(errors(answer)["args"])


def test_a_large_value_is_cut_on_a_page(admin_client: Client) -> None:
    job = Job.objects.cron("t", "@daily", kwargs={"a": "x" * 100_000})
    assert "(100013 characters)" in page(admin_client, add_fire(job, NOON))
