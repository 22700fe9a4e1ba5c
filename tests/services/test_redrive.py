"""Asking for redrives, stopping them, and how far they are: what is marked, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.core.errors import InvalidField
from scheduling.models import DeadLetter, Fire, Job, Redrive
from scheduling.services.dead_letters import LetterFilter
from scheduling.services.redrive import RedriveState, ask_redrive, latest, progress, stop_redrive
from tests.ledger_rows import DAY
from tests.letters import add_dead, add_letter, add_many_dead, carry_out

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    return Job.objects.cron("shop.report", "0 * * * *", name="report")


def marked() -> set[int]:
    return set(DeadLetter.objects.exclude(redrive=None).values_list("pk", flat=True))


def test_it_marks_these_letters_and_moves_none(job: Job) -> None:
    first, second, other = add_many_dead(job, 3)
    asked = ask_redrive([first, second], by=" anna ", rate_per_s=5)
    assert (asked.total, asked.moved, asked.skipped, asked.rate_per_s, asked.asked_by) == (2, 0, 0, 5, "anna")
    assert marked() == {first.pk, second.pk}
    assert set(Fire.objects.values_list("state", flat=True)) == {"dead"}
    assert other.redriven_at is None


def test_a_query_set_is_marked_as_it_is_filtered_in_as_many_queries_for_many_as_for_one(job: Job) -> None:
    other = Job.objects.cron("t", "0 * * * *", name="other")
    counts = []
    for hours, letters in ((1, 1), (2, 30)):
        for minute in range(letters):
            add_dead(job, DAY + timedelta(hours=hours, minutes=minute))
            add_dead(other, DAY + timedelta(hours=hours, minutes=minute))
        with CaptureQueriesContext(connection) as captured:
            assert ask_redrive(LetterFilter(job=job).letters(), by="anna").total == letters
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert not DeadLetter.objects.filter(job=other).exclude(redrive=None).exists()


def test_what_cannot_be_redriven_is_left_out(job: Job) -> None:
    gone = Job.objects.cron("t", "0 * * * *", name="gone")
    add_dead(gone)
    gone.delete()
    add_letter()
    again = add_dead(job, DAY + timedelta(minutes=1))
    DeadLetter.objects.filter(pk=again.pk).update(redriven_at=DAY)
    under_way = add_dead(job, DAY + timedelta(minutes=2))
    earlier = ask_redrive([under_way], by="anna")
    ready = add_dead(job, DAY + timedelta(minutes=3))

    assert ask_redrive(DeadLetter.objects.all(), by="ben").total == 1
    assert marked() == {under_way.pk, ready.pk}
    under_way.refresh_from_db()
    assert under_way.redrive_id == earlier.pk


def test_where_none_can_be_redriven_it_says_why_and_leaves_no_redrive(job: Job) -> None:
    gone = Job.objects.cron("t", "0 * * * *", name="gone")
    add_dead(gone)
    gone.delete()
    add_letter()
    with pytest.raises(InvalidField, match="letters 2: none .* redriven: 1 no fire of ours, 1 the job was deleted"):
        ask_redrive(DeadLetter.objects.all(), by="anna")
    with pytest.raises(InvalidField, match="letters 0: there are none to redrive"):
        ask_redrive([], by="anna")
    assert not Redrive.objects.exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"by": " "}, "by ' ': is needed"),
        ({"rate_per_s": 0}, "rate_per_s 0: is not a number from 0.001 to 1000"),
        ({"rate_per_s": 1001}, "is not a number from"),
        ({"rate_per_s": float("nan")}, "is not a number from"),
        ({"rate_per_s": True}, "is not a number from"),
        ({"rate_per_s": "5"}, "is not a number from"),
    ],
)
def test_what_cannot_be_is_refused_and_marks_nothing(job: Job, values: dict[str, Any], words: str) -> None:
    letter = add_dead(job)
    with pytest.raises(InvalidField, match=words):
        ask_redrive([letter], **{"by": "anna", **values})
    assert marked() == set()


def test_how_far_it_has_got(job: Job) -> None:
    add_many_dead(job, 3)
    asked = ask_redrive(DeadLetter.objects.all(), by="anna", rate_per_s=0.5)
    carry_out()
    found = progress(asked.pk)
    assert (found.state, found.total, found.moved, found.left) == (RedriveState.UNDER_WAY, 3, 1, 2)
    assert (found.left_s, found.ended_at) == (4.0, None)
    assert str(found) == f"redrive {asked.pk}: under way, moved 1 of 3, left 2"
    assert latest(5) == [found]


def test_what_was_stopped_can_be_asked_for_again(job: Job) -> None:
    add_many_dead(job, 2)
    asked = ask_redrive(DeadLetter.objects.all(), by="anna", rate_per_s=1)
    carry_out()
    assert stop_redrive(asked.pk, by="ben").stopped_at is not None
    found = progress(asked.pk)
    assert (found.state, found.moved, found.left, found.left_s) == (RedriveState.STOPPED, 1, 1, 0.0)
    assert ask_redrive(DeadLetter.objects.all(), by="ben").total == 1


def test_one_that_has_ended_cannot_be_stopped_nor_one_that_is_not_there(job: Job) -> None:
    add_dead(job)
    asked = ask_redrive(DeadLetter.objects.all(), by="anna")
    carry_out()
    with pytest.raises(InvalidField, match=f"redrive {asked.pk}: is finished already"):
        stop_redrive(asked.pk, by="ben")
    for look in (lambda: progress(0), lambda: stop_redrive(0, by="ben")):
        with pytest.raises(InvalidField, match="redrive 0: there is no such redrive"):
            look()
