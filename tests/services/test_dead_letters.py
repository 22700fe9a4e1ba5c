"""Looking for dead letters: by filters, by name, alike ones together; and discarding them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from fairness.models import Tenant
from scheduling.core.errors import InvalidField
from scheduling.models import DeadLetter, Fire, Job, Step
from scheduling.services import dead_letters
from scheduling.services.dead_letters import LetterFilter, discard, kinds, letters_named, survey
from scheduling.services.redrive import ask_redrive
from tests.ledger_rows import DAY
from tests.letters import DIED_AT, add_dead, add_letter, fire_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    return Job.objects.cron("shop.report", "0 * * * *", name="report", tenant=Tenant.objects.create(slug="acme"))


@pytest.fixture
def letters(job: Job) -> list[DeadLetter]:
    """Of acme's job; of another tenant's, a day later, and alike to a third; of nobody; and one that was redriven."""
    other = Job.objects.cron("shop.mail", "0 * * * *", name="mail")
    made = [
        add_dead(job),
        add_dead(other, reason="gave_up"),
        add_dead(other, DAY + timedelta(minutes=1), reason="gave_up"),
        add_letter(queue="fairbeat-dead.bulk"),
        add_dead(job, DAY + timedelta(minutes=2)),
    ]
    changes: list[dict[str, Any]] = [
        {"fingerprint": "a" * 16},
        {"fingerprint": "b" * 16, "died_at": DIED_AT + timedelta(days=1)},
        {"fingerprint": "b" * 16, "died_at": DIED_AT + timedelta(hours=1)},
        {},
        {"redriven_at": DIED_AT},
    ]
    for letter, change in zip(made, changes, strict=True):
        DeadLetter.objects.filter(pk=letter.pk).update(**{"error": "", **change})
    return made


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {0, 1, 2, 3}),
        ({"tenant": "acme"}, {0}),
        ({"task": "shop.mail"}, {1, 2}),
        ({"reason": "undecodable"}, {3}),
        ({"fingerprint": "b" * 16}, {1, 2}),
        ({"died_after": DIED_AT + timedelta(hours=1)}, {1, 2}),
        ({"died_before": DIED_AT + timedelta(hours=1)}, {0, 3}),
        ({"task": "shop.mail", "died_after": DIED_AT + timedelta(hours=2)}, {1}),
        ({"redriven": True}, {4}),
        ({"tenant": "default", "reason": "attempts_exhausted"}, set()),
    ],
    ids=str,
)
def test_all_that_is_given_must_hold(letters: list[DeadLetter], values: dict[str, Any], expected: set[int]) -> None:
    found = set(LetterFilter(**values).letters())
    assert found == {letters[place] for place in expected}


def test_those_of_one_job(letters: list[DeadLetter], job: Job) -> None:
    assert list(LetterFilter(job=job).letters()) == letters[:1]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tenant": "nobody"}, "tenant 'nobody': there is no such tenant"),
        ({"reason": "boredom"}, "reason 'boredom': is not one of attempts_exhausted, gave_up"),
        ({"fingerprint": "zz"}, "fingerprint 'zz': is not 16 hexadecimal digits"),
        ({"died_after": datetime(2026, 3, 2)}, "died_after .* has no time zone"),  # noqa: DTZ001
    ],
)
def test_a_filter_that_means_nothing_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        LetterFilter(**values).letters()


def test_letters_by_their_numbers_and_by_their_fires(letters: list[DeadLetter]) -> None:
    names = [f"0{letters[0].pk}", str(letters[4].fire_id).upper()]
    assert set(letters_named(names)) == {letters[0], letters[4]}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("999999999", "there is no such dead letter"),
        ("9" * 40, "there is no such dead letter"),
        ("01957f6e-0000-8000-8000-000000000000", "there is no such dead letter"),
        ("report", "is neither the number of a dead letter nor the id of a fire"),
    ],
)
def test_a_name_that_is_none_is_refused(letters: list[DeadLetter], name: str, words: str) -> None:
    with pytest.raises(InvalidField, match=f"letter '{name}': {words}"):
        letters_named([str(letters[0].pk), name])


def test_a_survey_tells_what_is_against_a_redrive_of_each(letters: list[DeadLetter], job: Job) -> None:
    ask_redrive(letters[1:2], by="anna")
    job.delete()
    found = survey(DeadLetter.objects.all())
    assert (found.count, found.ready, found.no_fire, found.deleted, found.under_way, found.redriven) == (
        5,
        1,
        1,
        1,
        1,
        1,
    )
    assert found.is_whole
    assert found.against == [
        "1 no fire of ours",
        "1 the job was deleted",
        "1 being redriven already",
        "1 redriven, and has not died again",
    ]


def test_a_survey_and_the_kinds_count_up_to_a_bound(letters: list[DeadLetter], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "COUNTED", 2)
    found = survey(LetterFilter().letters())
    assert (found.count, found.is_whole) == (2, False)
    assert sum(kind.count for kind in kinds(LetterFilter().letters())) == 2


def test_alike_ones_are_together_the_most_frequent_first(letters: list[DeadLetter]) -> None:
    first, *others = kinds(LetterFilter().letters())
    assert (first.fingerprint, first.count, first.tenants) == ("b" * 16, 2, 1)
    assert (first.first_died_at, first.last_died_at) == (
        DIED_AT + timedelta(hours=1),
        DIED_AT + timedelta(days=1),
    )
    assert first.sample in letters[1:3]
    assert {kind.fingerprint: kind.count for kind in others} == {"a" * 16: 1, "f" * 16: 1}
    assert [kind.fingerprint for kind in kinds(LetterFilter(tenant="acme").letters())] == ["a" * 16]


def test_a_discarded_letter_is_gone_with_the_steps_that_nothing_else_keeps(letters: list[DeadLetter]) -> None:
    for letter in letters[:3]:
        Step.objects.create(fire_id=fire_of(letter), name="charge", fence=1, scheduled_for=DAY, begun_at=DAY)
    Fire.objects.filter(pk=fire_of(letters[0])).delete()
    ask_redrive([letters[2]], by="anna")
    assert discard(letters, by="anna") == 4
    assert list(DeadLetter.objects.all()) == [letters[2]]
    assert set(Step.objects.values_list("fire_id", flat=True)) == {letters[1].fire_id, letters[2].fire_id}


def test_who_discards_must_be_said(letters: list[DeadLetter]) -> None:
    with pytest.raises(InvalidField, match="by '': is needed"):
        discard(letters, by="")
    assert DeadLetter.objects.count() == 5
