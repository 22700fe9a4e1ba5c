"""Cancelling fires and the unfinished runs of jobs; and the pages on which a redrive is watched and stopped."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from scheduling.models import DeadLetter, Fire, Job, JobClock, Redrive
from scheduling.services.redrive import ask_redrive
from tests.admin.action_pages import confirm, said
from tests.ledger_rows import DAY, add_fire
from tests.letters import add_many_dead, carry_out

pytestmark = pytest.mark.django_db

FIRES = "/admin/scheduling/fire/"
REDRIVES = "/admin/scheduling/redrive/"


@pytest.fixture
def job() -> Job:
    JobClock.objects.create(job_origin=DAY + timedelta(hours=1))
    return Job.objects.cron("shop.report", "0 * * * *", name="report")


def select(client: Client, url: str, action: str, *rows: Any, across: bool = False) -> Any:
    chosen = {"action": action, "index": "0", "select_across": str(int(across))}
    return client.post(url, {**chosen, "_selected_action": [str(row.pk) for row in rows]})


def states() -> dict[Any, str]:
    return {fire.pk: f"{fire.state} {fire.reason or fire.cancel_reason}" for fire in Fire.objects.all()}


def person(*codenames: str) -> Client:
    user = User.objects.create(username="person", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


# -- cancel ----------------------------------------------------------------------------------------------------------


def test_fires_that_were_selected_are_shown_and_then_cancelled(job: Job, admin_client: Client) -> None:
    waits = add_fire(job, state="retry_wait")
    runs = add_fire(job, DAY + timedelta(minutes=1), state="running")
    over = add_fire(job, DAY + timedelta(minutes=2), state="succeeded")
    other = add_fire(job, DAY + timedelta(minutes=3))
    page = select(admin_client, FIRES, "cancel_selected_fires", waits, runs, over)
    for words in ("<h2>2 fires", "report, 2026-03-02 00:00:00 UTC, retry_wait"):
        assert words in page.content.decode()

    done = confirm(admin_client, page, reason="a mistake")
    assert said(done) == ["Cancelled: 1 that did not run. Asked to stop: 1 that run."]
    assert states() == {
        waits.pk: "skipped cancelled",
        runs.pk: "running a mistake",
        over.pk: "succeeded ",
        other.pk: "claimed ",
    }


def test_all_fires_that_the_filter_shows_are_cancelled_and_no_others(job: Job, admin_client: Client) -> None:
    waits = add_fire(job, state="retry_wait")
    long_ago = add_fire(job, DAY - timedelta(days=3), state="retry_wait")
    page = select(admin_client, f"{FIRES}?state__exact=retry_wait", "cancel_selected_fires", waits, across=True)
    confirm(admin_client, page)
    assert states() == {waits.pk: "skipped cancelled", long_ago.pk: "retry_wait turn"}


def test_jobs_are_rid_of_what_is_unfinished_of_them(job: Job, admin_client: Client) -> None:
    fire = add_fire(job, state="parked")
    add_fire(Job.objects.cron("t", "0 * * * *", name="other"))
    page = select(admin_client, "/admin/scheduling/job/", "cancel_unfinished_runs", job)
    assert said(confirm(admin_client, page)) == ["Cancelled: 1 that did not run. Asked to stop: 0 that run."]
    assert states()[fire.pk] == "skipped cancelled"
    assert list(states().values()).count("claimed ") == 1


@pytest.mark.parametrize(("codename", "may"), [("view_fire", False), ("change_fire", True)])
def test_who_may_change_fires_may_cancel_them(job: Job, codename: str, may: bool) -> None:
    fire = add_fire(job)
    client = person("view_fire", codename)
    assert ("cancel_selected_fires" in client.get(FIRES).content.decode()) is may
    data = {"action": "cancel_selected_fires", "_selected_action": str(fire.pk), "select_across": "0"}
    client.post(FIRES, data | {"confirmed": "1"})
    assert (states()[fire.pk] == "skipped cancelled") is may


# -- redrives --------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(job: Job) -> Redrive:
    add_many_dead(job, 4)
    return ask_redrive(DeadLetter.objects.all(), by="anna", rate_per_s=0.5)


def test_one_that_is_under_way_shows_how_far_it_is_and_loads_itself_anew(asked: Redrive, admin_client: Client) -> None:
    carry_out()
    html = admin_client.get(f"{REDRIVES}{asked.pk}/change/").content.decode()
    for words in ("under way", '<progress max="4" value="1">25 %</progress>', "about 6 s", 'http-equiv="refresh"'):
        assert words in html
    assert f"/admin/scheduling/deadletter/?redrive__id__exact={asked.pk}&amp;standing=all" in html
    assert "under way" in admin_client.get(REDRIVES).content.decode()
    letters = admin_client.get(f"/admin/scheduling/deadletter/?redrive__id__exact={asked.pk}&standing=all")
    assert letters.content.decode().count('class="action-select"') == 4


def test_its_button_stops_it(asked: Redrive, admin_client: Client) -> None:
    stop = f"{REDRIVES}{asked.pk}/stop/"
    assert f'action="{stop}"' in admin_client.get(f"{REDRIVES}{asked.pk}/change/").content.decode()
    assert admin_client.get(stop).status_code == 405
    answer = admin_client.post(stop)
    assert said(answer) == [f"Stopped: redrive {asked.pk}: stopped, moved 0 of 4, left 4."]
    html = admin_client.get(answer["Location"]).content.decode()
    assert (f'action="{stop}"' in html, 'http-equiv="refresh"' in html) == (False, False)
    assert said(admin_client.post(stop))[-1] == f"redrive {asked.pk}: is stopped already."
    assert said(admin_client.post(f"{REDRIVES}0/stop/"))[-1] == "redrive 0: there is no such redrive."


def test_who_may_redrive_may_watch_and_stop_it_and_nobody_else(asked: Redrive) -> None:
    page, stop = f"{REDRIVES}{asked.pk}/change/", f"{REDRIVES}{asked.pk}/stop/"
    client = person("view_redrive")
    assert (client.get(page).status_code, client.post(stop).status_code) == (200, 403)
    assert f'action="{stop}"' not in client.get(page).content.decode()
    User.objects.all().delete()
    client = person("change_deadletter")
    assert (client.get(page).status_code, client.post(stop).status_code) == (200, 302)


def test_the_page_holds_under_a_strict_content_security_policy(asked: Redrive, admin_client: Client) -> None:
    html = admin_client.get(f"{REDRIVES}{asked.pk}/change/").content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", html)
