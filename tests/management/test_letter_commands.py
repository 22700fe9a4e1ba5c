"""The commands cancel, redrive and dead_letters: what they print, and how they refuse."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fairness.models import Tenant
from scheduling.management.commands import redrive as redrive_command
from scheduling.models import DeadLetter, Fire, Job, Redrive
from tests.ledger_rows import DAY, add_fire
from tests.letters import add_dead, add_letter, add_many_dead, carry_out

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    return Job.objects.cron("shop.report", "0 * * * *", name="a/report", tenant=Tenant.objects.create(slug="acme"))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> str:
        call_command(*words)
        return capsys.readouterr().out

    return run


# -- cancel ----------------------------------------------------------------------------------------------------------


def test_cancel_by_job_and_by_fire(job: Job, call: Any) -> None:
    waits = add_fire(job, state="retry_wait")
    runs = add_fire(job, DAY + timedelta(minutes=1), state="running")
    over = add_fire(Job.objects.cron("t", "0 * * * *"), state="succeeded")
    out = call("cancel", "acme/a/report", str(over.pk), "--reason", "a mistake", "--by", "anna")
    assert out == "cancelled: 1 that did not run, asked to stop: 1 that run; ended before: 1\n"
    for fire in (waits, runs):
        fire.refresh_from_db()
    assert (waits.state, runs.cancel_reason) == ("skipped", "a mistake")
    told = json.loads(call("cancel", str(runs.pk), str(job.pk), "--json"))
    assert told == {"at_once": 0, "asked": 1, "sent": 0, "over": 0}


def test_cancel_tells_what_cannot_be_called_back(job: Job, call: Any) -> None:
    add_fire(job, confirmed=True)
    assert call("cancel", str(job.pk)).endswith("; sent to plain Celery tasks, and not to be called back: 1\n")


# -- redrive ---------------------------------------------------------------------------------------------------------


def test_redrive_by_letter_and_by_fire_and_how_far_it_is(job: Job, call: Any) -> None:
    first, second, _ = add_many_dead(job, 3)
    out = call("redrive", str(first.pk), str(second.fire_id), "--rate", "2.5", "--by", "anna")
    asked = Redrive.objects.get()
    assert out == f"redrive {asked.pk}: under way, moved 0 of 2, left 2\n"
    assert (asked.rate_per_s, asked.asked_by) == (2.5, "anna")
    carry_out()
    assert call("redrive", "--status", str(asked.pk)) == f"redrive {asked.pk}: under way, moved 1 of 2, left 1\n"
    told = json.loads(call("redrive", "--status", "--json"))
    assert [(one["id"], one["state"], one["left"], one["left_s"]) for one in told] == [(asked.pk, "under way", 1, 0.4)]

    out = call("redrive", "--stop", str(asked.pk))
    assert out == f"redrive {asked.pk}: stopped, moved 1 of 2, left 1\n"
    with pytest.raises(CommandError, match=f"^redrive {asked.pk}: is stopped already$"):
        call_command("redrive", "--stop", str(asked.pk))


def test_redrive_of_all_that_match_counted_first(job: Job, call: Any) -> None:
    add_many_dead(job, 3)
    add_dead(Job.objects.cron("t", "0 * * * *", name="other"))
    add_letter()
    which = ("redrive", "--tenant", "acme", "--reason", "attempts_exhausted", "--died-before", "2026-03-02")
    assert call(*which, "--dry-run") == "3 of 3 dead letters can be redriven (dry run: nothing was moved)\n"
    assert call("redrive", "--all", "--dry-run").startswith("4 of 5 dead letters can be redriven; not: 1 no fire of")
    told = json.loads(call("redrive", "--all", "--dry-run", "--json"))
    assert (told["count"], told["ready"], told["no_fire"], told["is_whole"]) == (5, 4, 1, True)
    assert not Redrive.objects.exists()

    assert json.loads(call(*which, "--json"))["total"] == 3
    assert set(DeadLetter.objects.exclude(redrive=None).values_list("job", flat=True)) == {job.pk}


def test_redrive_may_be_waited_for(job: Job, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add_many_dead(job, 2)
    monkeypatch.setattr(redrive_command, "_pause", lambda _: carry_out())
    assert "finished, moved 2 of 2" in call("redrive", "--all", "--rate", "1000", "--wait")


def test_who_no_longer_waits_is_told_that_it_goes_on(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    add_dead(job)
    monkeypatch.setattr(redrive_command, "_pause", interrupt)
    with pytest.raises(CommandError, match=r"^redrive \d+ goes on; --stop \d+ ends it$"):
        call_command("redrive", "--all", "--wait")
    assert Redrive.objects.get().stopped_at is None


def test_no_redrive_yet(job: Job, call: Any) -> None:
    assert call("redrive", "--status") == "there was no redrive yet\n"
    assert json.loads(call("redrive", "--status", "--json")) == []


# -- dead_letters ----------------------------------------------------------------------------------------------------


def test_alike_ones_are_shown_together(job: Job, call: Any) -> None:
    add_many_dead(job, 2)
    DeadLetter.objects.update(error="KeyError: 'x'", fingerprint="a" * 16)
    add_letter(queue="fairbeat-dead.bulk")
    first, second = call("dead_letters").splitlines()
    assert first.startswith(f"{'a' * 16}        2 attempts_exhausted, shop.report, last 2026-03-02 13:00:00 UTC; ")
    assert first.endswith(": KeyError: 'x'")
    assert second.startswith(f"{'f' * 16}        1 undecodable, fairbeat-dead.bulk, last")
    told = json.loads(call("dead_letters", "--task", "shop.report", "--json"))
    assert [(kind["count"], kind["tenants"], kind["sample"]["name"]) for kind in told] == [(2, 1, "acme/a/report")]


def test_one_by_one_without_arguments(job: Job, call: Any) -> None:
    Job.objects.update(kwargs={"password": "sesame"})
    letter = add_dead(Job.objects.get())
    redriven = add_dead(Job.objects.get(), DAY + timedelta(minutes=1))
    DeadLetter.objects.filter(pk=redriven.pk).update(redriven_at=DAY)
    out = call("dead_letters", "--list")
    assert out == (
        f"{letter.pk}  2026-03-02 13:00:00 UTC acme/a/report, shop.report: attempts_exhausted after 3 attempts; "
        "no error\n"
    )
    told = json.loads(call("dead_letters", str(letter.fire_id), "--json"))
    assert [(one["id"], one["fire"], one["job"]) for one in told] == [(letter.pk, str(letter.fire_id), str(job.pk))]
    assert "sesame" not in json.dumps(told)
    assert ", redriven 2026-03-02 00:00:00 UTC;" in call("dead_letters", "--redriven", "--list")
    assert call("dead_letters", "--list", "--limit", "1").count("\n") == 1


def test_a_letter_whose_job_is_gone_is_shown_all_the_same(job: Job, call: Any) -> None:
    add_dead(job)
    Fire.objects.all().delete()
    Job.objects.filter(pk=job.pk).delete()
    assert ": attempts_exhausted after 3 attempts" in call("dead_letters", "--list")


def test_discard_those_that_match(job: Job, call: Any) -> None:
    add_many_dead(job, 2)
    left = add_letter()
    assert call("dead_letters", "--discard", "--job", "acme/a/report") == "discarded: 2 dead letters\n"
    assert list(DeadLetter.objects.all()) == [left]
    assert json.loads(call("dead_letters", "--discard", "--all", "--json")) == {"discarded": 1}
    assert call("dead_letters") == "no dead letters\n"


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cancel", "acme/b"], "^job 'acme/b': there is no such job$"),
        (["cancel", "00000000-0000-8000-8000-000000000000"], "^fire '0.*: there is no such fire$"),
        (["cancel", "acme/a/report", "--reason", "x" * 501], "longer than 500"),
        (["redrive"], "^say which dead letters: ids, filters, or --all$"),
        (["redrive", "--all", "--task", "t"], "^--all cannot be given beside ids or filters$"),
        (["redrive", "7", "--task", "t"], "^task 't': cannot be given beside the ids of dead letters$"),
        (["redrive", "7"], "^letter '7': there is no such dead letter$"),
        (["redrive", "--all", "--rate", "fast"], "^rate 'fast': is not a number$"),
        (["redrive", "--all", "--rate", "0"], "^rate_per_s 0.0: is not a number from 0.001 to 1000$"),
        (["redrive", "--tenant", "nobody"], "^tenant 'nobody': there is no such tenant$"),
        (["redrive", "--job", "acme/b"], "^job 'acme/b': there is no such job$"),
        (["redrive", "--died-after", "soon"], "^died_after 'soon': is not a day such as"),
        (["redrive", "--task", "t"], "^letters 0: there are none to redrive$"),
        (["redrive", "--status", "x"], "^redrive 'x': is not the number of a redrive$"),
        (["redrive", "--status", "7"], "^redrive 7: there is no such redrive$"),
        (["redrive", "--stop", "9" * 30], "there is no such redrive$"),
        (["dead_letters", "--discard"], "^say which dead letters: ids, filters, or --all$"),
        (["dead_letters", "--limit", "0"], "^limit '0': is not a number from 1 on$"),
        (["dead_letters", "--reason", "boredom"], "^reason 'boredom': is not one of"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else "",
)
def test_errors_are_one_sentence_and_change_nothing(job: Job, words: list[str], sentence: str) -> None:
    add_dead(job)
    with pytest.raises(CommandError, match=sentence):
        call_command(*words)
    assert (DeadLetter.objects.filter(redrive=None).count(), Redrive.objects.exists()) == (1, False)
