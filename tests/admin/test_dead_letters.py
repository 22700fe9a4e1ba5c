"""The pages of dead letters: what they show, what may be done about them, to exactly which, and by whom."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from fairness.models import Tenant
from scheduling.models import DeadLetter, Fire, Job, Redrive
from tests.admin.action_pages import confirm, said
from tests.ledger_rows import DAY
from tests.letters import add_dead, add_letter, add_many_dead

pytestmark = pytest.mark.django_db

LIST = "/admin/scheduling/deadletter/"
ALIKE = f"{LIST}alike/"
NO_SCRIPT = r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style"


@pytest.fixture
def job() -> Job:
    acme = Tenant.objects.create(slug="acme")
    return Job.objects.cron("shop.report", "0 * * * *", name="report", tenant=acme, kwargs={"api_key": "sesame"})


@pytest.fixture
def letters(job: Job) -> list[DeadLetter]:
    """Three of acme, one of another tenant, and one of a message that is none of ours."""
    made = add_many_dead(job, 3)
    made.append(add_dead(Job.objects.cron("shop.mail", "0 * * * *", name="mail"), reason="gave_up"))
    made.append(add_letter(queue="fairbeat-dead.bulk", message=b"\xffpassword: sesame"))
    DeadLetter.objects.filter(pk__in=[made[0].pk, made[1].pk]).update(fingerprint="a" * 16, error="KeyError: <x>")
    return made


def select(client: Client, action: str, *letters: DeadLetter, query: str = "", across: bool = False) -> Any:
    """What the list posts when an action is chosen and Go is clicked."""
    chosen = {"action": action, "index": "0", "select_across": str(int(across))}
    return client.post(LIST + query, {**chosen, "_selected_action": [str(letter.pk) for letter in letters]})


def click(client: Client, html: str, url: str, button: str) -> Any:
    """Send the form of the page that has this button."""
    [form] = [found for found in re.findall(r"<form .*?</form>", html, re.DOTALL) if f'value="{button}"' in found]
    data = dict(re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form))
    action = re.search(r'action="([^"]*)"', form)
    return client.post(action[1].replace("&amp;", "&") if action else url, data)


def marked() -> set[int]:
    return set(DeadLetter.objects.exclude(redrive=None).values_list("pk", flat=True))


# -- looking ---------------------------------------------------------------------------------------------------------


def test_the_list_shows_those_that_wait_unless_others_are_asked_for(
    letters: list[DeadLetter], admin_client: Client
) -> None:
    DeadLetter.objects.filter(pk=letters[0].pk).update(redriven_at=DAY)
    pages = {query: admin_client.get(LIST + query).content.decode() for query in ("", "?standing=redriven")}
    shown = {query: len(re.findall('class="action-select"', html)) for query, html in pages.items()}
    assert shown == {"": 4, "?standing=redriven": 1}
    assert "KeyError: &lt;x&gt;" in pages[""]
    assert f"5 {DeadLetter._meta.verbose_name_plural}" in admin_client.get(f"{LIST}?standing=all").content.decode()


def test_one_in_full_with_its_secrets_hidden(letters: list[DeadLetter], admin_client: Client) -> None:
    html = admin_client.get(f"{LIST}{letters[0].pk}/change/").content.decode()
    for words in (str(letters[0].fire_id), f"{letters[0].job_id}/2026-03-02T00:00:00.000000Z", "waits for someone"):
        assert words in html
    assert "sesame" not in html
    assert "api_key" in html


@pytest.mark.parametrize(("codename", "is_shown"), [("view_deadletter", False), ("change_deadletter", True)])
def test_what_cannot_be_read_and_so_not_masked_is_shown_to_who_may_act_alone(
    letters: list[DeadLetter], codename: str, is_shown: bool
) -> None:
    html = person(codename).get(f"{LIST}{letters[4].pk}/change/").content.decode()
    assert ("sesame" in html) is is_shown
    assert "cannot be redriven: no fire of ours" in html


def test_a_letter_whose_job_and_fire_are_gone_is_shown_all_the_same(job: Job, admin_client: Client) -> None:
    letter = add_dead(job)
    Fire.objects.all().delete()
    Job.objects.filter(pk=job.pk).delete()
    for page in (LIST, f"{LIST}{letter.pk}/change/", ALIKE):
        assert admin_client.get(page).status_code == 200
    assert f"{job.pk} (gone)" in admin_client.get(LIST).content.decode()


@pytest.mark.parametrize("number", ["x", "0", "9" * 30])
def test_a_number_that_is_none_leads_back(number: str, admin_client: Client) -> None:
    assert admin_client.get(f"{LIST}{number}/change/").status_code == 302


def test_the_page_of_the_fire_leads_to_its_letter(letters: list[DeadLetter], admin_client: Client) -> None:
    html = admin_client.get(reverse("admin:scheduling_fire_change", args=[letters[0].fire_id])).content.decode()
    assert f'<a href="{LIST}{letters[0].pk}/change/">attempts exhausted</a>' in html


def test_alike_ones_are_together_under_the_same_filters(letters: list[DeadLetter], admin_client: Client) -> None:
    html = admin_client.get(ALIKE).content.decode()
    assert html.index("f" * 16) < html.index("a" * 16)
    assert "KeyError: &lt;x&gt;" in html
    html = admin_client.get(f"{ALIKE}?reason__exact=gave_up").content.decode()
    assert ("a" * 16 not in html, "f" * 16 in html) == (True, True)
    assert f'href="{LIST}?fingerprint={"f" * 16}&amp;reason__exact=gave_up"' in html


def test_lists_take_as_many_queries_for_many_as_for_one(
    job: Job, admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for minute in range(12):
        letter = add_dead(job, DAY + timedelta(minutes=minute))
        DeadLetter.objects.filter(pk=letter.pk).update(fingerprint=f"{minute:016x}")
    for page in (LIST, ALIKE, f"{LIST}{letter.pk}/change/"):
        with django_assert_max_num_queries(12):
            admin_client.get(page)


# -- redriving -------------------------------------------------------------------------------------------------------


def test_those_that_were_selected_are_counted_and_shown_and_then_redriven(
    letters: list[DeadLetter], admin_client: Client
) -> None:
    page = select(admin_client, "redrive_letters", letters[0], letters[4])
    html = page.content.decode()
    for words in ("2 dead letters", "1 of them can be redriven. Not: 1 no fire of ours.", "acme, shop.report"):
        assert words in html
    assert f"{letters[1].pk}, acme" not in html
    assert marked() == set()

    done = confirm(admin_client, page, rate_per_s="7")
    asked = Redrive.objects.get()
    assert done["Location"] == f"/admin/scheduling/redrive/{asked.pk}/change/"
    assert said(done) == ["Asked for: 1 dead letters are redriven."]
    assert (asked.total, asked.rate_per_s, asked.asked_by, marked()) == (1, 7, "admin", {letters[0].pk})


@pytest.mark.parametrize("query", ["?tenant=acme", f"?fingerprint={'a' * 16}", "?reason__exact=gave_up&tenant=default"])
def test_all_that_the_filter_shows_are_redriven_and_no_others(
    letters: list[DeadLetter], admin_client: Client, query: str
) -> None:
    expected = {"?tenant=acme": {0, 1, 2}, f"?fingerprint={'a' * 16}": {0, 1}}.get(query, {3})
    page = select(admin_client, "redrive_letters", letters[3], query=query, across=True)
    assert f"<h2>{len(expected)} dead letter" in page.content.decode()
    confirm(admin_client, page)
    assert marked() == {letters[place].pk for place in expected}


def test_all_of_a_filter_are_redriven_without_a_script(letters: list[DeadLetter], admin_client: Client) -> None:
    address = f"{LIST}?tenant=acme"
    page = click(admin_client, admin_client.get(address).content.decode(), address, "Redrive all of these…")
    confirm(admin_client, page)
    assert marked() == {letter.pk for letter in letters[:3]}


def test_alike_ones_are_redriven_from_their_page_under_its_filters(
    letters: list[DeadLetter], admin_client: Client
) -> None:
    address = f"{ALIKE}?reason__exact=gave_up"
    page = click(admin_client, admin_client.get(address).content.decode(), address, "Redrive…")
    confirm(admin_client, page)
    assert marked() == {letters[3].pk}


def test_one_is_redriven_from_its_page(letters: list[DeadLetter], admin_client: Client) -> None:
    address = f"{LIST}{letters[1].pk}/change/"
    page = click(admin_client, admin_client.get(address).content.decode(), address, "Redrive…")
    confirm(admin_client, page)
    assert marked() == {letters[1].pk}
    DeadLetter.objects.filter(pk=letters[1].pk).update(redriven_at=DAY)
    assert "Redrive…" not in admin_client.get(address).content.decode()


def test_what_died_after_the_page_was_made_is_not_meant(letters: list[DeadLetter], admin_client: Client) -> None:
    page = select(admin_client, "redrive_letters", letters[0], across=True)
    DeadLetter.objects.filter(pk=letters[1].pk).update(died_at=timezone.now() + timedelta(seconds=5))
    confirm(admin_client, page)
    assert marked() == {letters[0].pk, letters[2].pk, letters[3].pk}


def test_a_row_beyond_the_filter_is_not_redriven_though_its_id_is_sent(
    letters: list[DeadLetter], admin_client: Client
) -> None:
    confirm(admin_client, select(admin_client, "redrive_letters", *letters, query="?reason__exact=gave_up"))
    assert marked() == {letters[3].pk}


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"rate_per_s": "0"}, "rate_per_s", "is not a number from 0.001 to 1000"),
        ({"rate_per_s": "fast"}, "rate_per_s", "Enter a number"),
        ({}, "__all__", "none of them can be redriven: 1 no fire of ours"),
    ],
)
def test_a_refusal_stands_at_its_field_and_marks_nothing(
    letters: list[DeadLetter], admin_client: Client, values: dict[str, str], field: str, words: str
) -> None:
    answer = confirm(admin_client, select(admin_client, "redrive_letters", letters[4]), **values)
    assert list(answer.context["form"].errors) == [field]
    assert words in answer.content.decode()
    assert marked() == set()


# -- discarding ------------------------------------------------------------------------------------------------------


def test_discarding_is_asked_first_and_takes_what_was_shown(letters: list[DeadLetter], admin_client: Client) -> None:
    page = select(admin_client, "discard_letters", letters[0], query="?tenant=acme", across=True)
    assert DeadLetter.objects.count() == 5
    done = confirm(admin_client, page)
    assert said(done) == ["Discarded: 3 dead letters."]
    assert done["Location"] == f"{LIST}?tenant=acme"
    assert set(DeadLetter.objects.all()) == set(letters[3:])


# -- who may, and how ------------------------------------------------------------------------------------------------


def person(*codenames: str) -> Client:
    user = User.objects.create(username="person", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(
    ("codenames", "redrives", "discards"),
    [
        (["view_deadletter"], False, False),
        (["change_deadletter"], True, False),
        (["view_deadletter", "delete_deadletter"], False, True),
    ],
)
def test_each_is_offered_what_he_may_and_taken_at_nothing_else(
    letters: list[DeadLetter], codenames: list[str], redrives: bool, discards: bool
) -> None:
    client = person(*codenames)
    html = client.get(LIST).content.decode()
    assert (">Redrive…<" in html, "Redrive all of these" in html, ">Discard…<" in html) == (
        redrives,
        redrives,
        discards,
    )
    assert ("Redrive…" in client.get(ALIKE).content.decode()) is redrives
    for action in ("redrive_letters", "discard_letters"):
        data = {"action": action, "_selected_action": str(letters[0].pk), "select_across": "0", "confirmed": "1"}
        client.post(LIST, data | {"rate_per_s": "1", "counted_at": "2090-01-01T00:00Z"})
    gone = not DeadLetter.objects.filter(pk=letters[0].pk).exists()
    assert (Redrive.objects.exists(), gone) == (redrives, discards)


def test_who_may_nothing_sees_nothing(letters: list[DeadLetter]) -> None:
    client = person()
    for page in (LIST, ALIKE, f"{LIST}{letters[0].pk}/change/"):
        assert client.get(page).status_code == 403


def test_nobody_edits_a_letter(letters: list[DeadLetter], admin_client: Client) -> None:
    address = f"{LIST}{letters[0].pk}/change/"
    assert admin_client.post(address, {"task": "other"}).status_code == 403
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.get(f"{LIST}{letters[0].pk}/delete/").status_code == 403


def test_the_pages_hold_under_a_strict_content_security_policy(letters: list[DeadLetter], admin_client: Client) -> None:
    pages = [admin_client.get(page) for page in (LIST, ALIKE, f"{LIST}{letters[0].pk}/change/")]
    pages += [select(admin_client, action, letters[0]) for action in ("redrive_letters", "discard_letters")]
    for page in pages:
        assert page.status_code == 200
        assert not re.search(NO_SCRIPT, page.content.decode())
