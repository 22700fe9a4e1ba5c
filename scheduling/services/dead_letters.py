"""Dead letters as people look for them: by what they are of, by what they died of, and alike ones together.

What is found are query sets, to be looked at, redriven or discarded. As a rule of the letters that wait for someone to
decide; those that were redriven are history.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Count, Max, Min, Q, QuerySet

from fairness.models import Tenant
from scheduling.core.errors import InvalidField
from scheduling.core.fingerprint import DIGITS
from scheduling.core.recurrence.schedule import option, utc
from scheduling.models import DeadLetter, DeathReason, Job
from scheduling.services.session import BY_LIMIT, in_transaction, said
from scheduling.store.arrays import integers
from scheduling.store.statements import statements

logger = logging.getLogger(__name__)
Letters = Iterable[DeadLetter] | QuerySet[DeadLetter]
COUNTED = 200_000  # letters are counted up to here; "more than" that is all that is said beyond
_HIGHEST = 2**63 - 1  # that a number of a letter can be; and none will be
_FINGERPRINT = re.compile(rf"[0-9a-f]{{{DIGITS}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """All that is given must hold. ``tenant`` is a slug; times are real."""

    tenant: str = ""
    job: Job | None = None
    task: str = ""
    reason: str = ""
    fingerprint: str = ""
    died_after: datetime | None = None
    died_before: datetime | None = None
    redriven: bool = False

    def letters(self, *, using: str = DEFAULT_DB_ALIAS) -> QuerySet[DeadLetter]:
        """Those that match, the newest first.

        Raises InvalidField: a ``tenant`` that there is none of, an unknown ``reason``, a ``fingerprint`` that is none,
        a naive time.
        """
        where = Q(redriven_at__isnull=not self.redriven)
        if self.tenant:
            where &= Q(tenant=_tenant(self.tenant, using))
        if self.job is not None:
            where &= Q(job=self.job)
        if self.task:
            where &= Q(task=self.task)
        if self.reason:
            where &= Q(reason=option("reason", DeathReason, self.reason))
        if self.fingerprint:
            where &= Q(fingerprint=_fingerprint(self.fingerprint))
        if self.died_after is not None:
            where &= Q(died_at__gte=utc("died_after", self.died_after))
        if self.died_before is not None:
            where &= Q(died_at__lt=utc("died_before", self.died_before))
        return DeadLetter.objects.using(using).filter(where)


def _tenant(slug: str, using: str) -> Tenant:
    tenant = Tenant.objects.using(using).filter(slug=slug).first()
    if tenant is None:
        raise InvalidField("tenant", slug, "there is no such tenant")
    return tenant


def _fingerprint(text: str) -> str:
    if not _FINGERPRINT.fullmatch(text):
        raise InvalidField("fingerprint", text, f"is not {DIGITS} hexadecimal digits")
    return text


def letters_named(names: Sequence[str], *, using: str = DEFAULT_DB_ALIAS) -> QuerySet[DeadLetter]:
    """The letters of these ids, or of the fires of these ids; whether they wait or not.

    Raises InvalidField (``letter``).
    """
    numbers, fires = set[int](), set[UUID]()
    for name in names:
        try:
            if name.isdecimal():
                numbers.add(min(int(name), _HIGHEST))
            else:
                fires.add(UUID(name))
        except ValueError:
            raise InvalidField("letter", name, "is neither the number of a dead letter nor the id of a fire") from None
    letters = DeadLetter.objects.using(using).filter(Q(pk__in=numbers) | Q(fire_id__in=fires))
    found = {str(value) for row in letters.order_by().values_list("pk", "fire_id") for value in row}
    if missing := [name for name in names if _plain(name) not in found]:
        raise InvalidField("letter", missing[0], "there is no such dead letter")
    return letters


def _plain(name: str) -> str:
    return str(int(name)) if name.isdecimal() else str(UUID(name))


def ids_of_letters(letters: Letters, *, most: int | None = None) -> list[int]:
    """Their ids, in order; ``most`` of a query set's. A query set is read for its ids alone."""
    if isinstance(letters, QuerySet):
        return list(letters.order_by("pk").values_list("pk", flat=True)[:most])
    return sorted({letter.pk for letter in letters})


# -- looking ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Survey:
    """How many letters there are, how many of them can be redriven, and what is against the others: ``no_fire`` (it was
    a message that is none of ours), ``deleted`` (its job is), ``under_way`` (in another redrive), ``redriven`` (once
    already, and it has not died again). ``is_whole``: none beyond what was counted. ``counted_at`` is real time.
    """

    count: int
    ready: int
    no_fire: int
    deleted: int
    under_way: int
    redriven: int
    is_whole: bool
    counted_at: datetime

    @property
    def against(self) -> list[str]:
        """Why not all of them can be redriven, in words."""
        words = {
            "no_fire": "no fire of ours",
            "deleted": "the job was deleted",
            "under_way": "being redriven already",
            "redriven": "redriven, and has not died again",
        }
        counts = ((getattr(self, name), said_of) for name, said_of in words.items())
        return [f"{count} {said_of}" for count, said_of in counts if count]


def survey(letters: Letters, *, using: str = DEFAULT_DB_ALIAS) -> Survey:
    """What a redrive of these would find now; it changes nothing."""
    with in_transaction(using) as connection:
        now = connection.execute("SELECT clock_timestamp()").fetchone()
        ids = ids_of_letters(letters, most=COUNTED + 1)
        counted = ids[:COUNTED]
        rows = connection.execute(statements("redrive")["standings"], {"letters": integers(counted)}).fetchall()
    assert now is not None
    counts = {"ready": 0, "no_fire": 0, "deleted": 0, "under_way": 0, "redriven": 0} | dict(rows)
    return Survey(count=sum(counts.values()), is_whole=len(ids) <= COUNTED, counted_at=now[0], **counts)


@dataclass(frozen=True, slots=True)
class Kind:
    """Letters that died of the same. ``sample``: the one of them that was written last."""

    fingerprint: str
    count: int
    tenants: int
    first_died_at: datetime
    last_died_at: datetime
    sample: DeadLetter


def kinds(letters: QuerySet[DeadLetter], *, most: int = 100) -> list[Kind]:
    """Alike ones together, the most frequent first; of the newest ``COUNTED`` letters."""
    newest = letters.order_by("-died_at", "-pk").values("pk")[:COUNTED]
    groups = (
        DeadLetter.objects.using(letters.db)
        .filter(pk__in=newest)
        .order_by()
        .values("fingerprint")
        .annotate(
            count=Count("pk"),
            tenants=Count("tenant", distinct=True),
            first_died_at=Min("died_at"),
            last_died_at=Max("died_at"),
            sample=Max("pk"),
        )
        .order_by("-count", "-last_died_at")[:most]
    )
    found = list(groups)
    samples = DeadLetter.objects.using(letters.db).select_related("tenant", "job").in_bulk([g["sample"] for g in found])
    return [Kind(**group | {"sample": samples[group["sample"]]}) for group in found if group["sample"] in samples]


# -- discarding ------------------------------------------------------------------------------------------------------


def discard(letters: Letters, *, by: str, using: str = DEFAULT_DB_ALIAS) -> int:
    """Delete these letters for good: their fires stay dead, for as long as their history is kept. Those that are being
    redriven are passed over. Returns how many went.

    Raises InvalidField (``by``).
    """
    who = said("by", by, limit=BY_LIMIT)
    ids = ids_of_letters(letters)
    with in_transaction(using) as connection:
        connection.execute(statements("redrive")["one_at_a_time"])
        row = connection.execute(statements("redrive")["discard"], {"letters": integers(ids)}).fetchone()
    assert row is not None
    gone = int(row[0])
    logger.info("%s discarded %d dead letters", who, gone)
    return gone
