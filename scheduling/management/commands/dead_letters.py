"""``manage.py dead_letters``: what died, alike ones together, or one by one with ``--list``; and ``--discard``.

``--json`` prints a list, of kinds::

    [{"fingerprint": "9c1185a5c5e9fc54", "count": 1200, "tenants": 3, "first_died_at": …, "last_died_at": …,
      "sample": {…}}, …]

or with ``--list`` of letters, each as a ``sample`` is::

    {"id": 17, "fire": "01957f6e-…", "job": "01957f6d-…", "name": "acme/report", "tenant": "acme",
     "scheduled_for": …, "task": "shop.report", "reason": "attempts_exhausted", "attempts": 3, "error": "KeyError: …",
     "fingerprint": …, "worker": …, "queue": "", "died_at": …, "redriven_at": null, "redrives": 0}

Arguments are not printed: the admin shows them, masked.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet

from scheduling.core.errors import InvalidField
from scheduling.management.letter_arguments import add_letter_arguments, check_meant, letters_of
from scheduling.management.operating_command import OperatingCommand
from scheduling.models import DeadLetter
from scheduling.services.dead_letters import Kind, discard, kinds


class Command(OperatingCommand):
    help = (
        "Show the dead letters that wait for someone to decide, alike ones together: how many, of what, and one of "
        "them. With --list one by one; with --redriven those that were redriven; with --discard they are deleted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_letter_arguments(parser)
        parser.add_argument("--list", action="store_true", help="one by one, the newest first")
        parser.add_argument("--limit", default="100", metavar="N", help="how many are shown (100)")
        parser.add_argument(
            "--redriven", action="store_true", help="those that were redriven, in place of those that wait"
        )
        parser.add_argument("--discard", action="store_true", help="delete them for good: they cannot be redriven then")
        parser.add_argument("--all", action="store_true", help="with --discard: all of them")
        super().add_arguments(parser)

    def operate(self, **options: Any) -> None:
        letters = letters_of(options, redriven=options["redriven"])
        if options["discard"]:
            self._discard(letters, options)
        elif options["list"] or options["letters"]:
            found = list(letters.select_related("tenant", "job")[: _count(options["limit"])])
            lines = "\n".join(map(_line, found)) or "no dead letters"
            self.tell([_json(letter) for letter in found], lines, as_json=options["json"])
        else:
            groups = kinds(letters, most=_count(options["limit"]))
            lines = "\n".join(map(_words, groups)) or "no dead letters"
            told = [_kind_json(group) for group in groups]
            self.tell(told, lines, as_json=options["json"])

    def _discard(self, letters: QuerySet[DeadLetter], options: dict[str, Any]) -> None:
        check_meant(options)
        gone = discard(letters, by=options["by"])
        self.tell({"discarded": gone}, f"discarded: {gone} dead letters", as_json=options["json"])


def _words(group: Kind) -> str:
    letter = group.sample
    tenants = f" of {group.tenants} tenants" if group.tenants > 1 else ""
    return (
        f"{group.fingerprint}  {group.count:>7} {letter.reason}{tenants}, {letter.task or letter.queue or 'no task'}, "
        f"last {group.last_died_at:%Y-%m-%d %H:%M:%S} UTC; {letter.pk}: {letter.error or 'no error'}"
    )


def _line(letter: DeadLetter) -> str:
    redriven = f", redriven {letter.redriven_at:%Y-%m-%d %H:%M:%S} UTC" if letter.redriven_at else ""
    return (
        f"{letter.pk}  {letter.died_at:%Y-%m-%d %H:%M:%S} UTC {_name(letter) or letter.queue or '-'}, "
        f"{letter.task or 'no task'}: {letter.reason} after {letter.attempts} attempts{redriven}; "
        f"{letter.error or 'no error'}"
    )


def _kind_json(group: Kind) -> dict[str, Any]:
    columns = ("fingerprint", "count", "tenants", "first_died_at", "last_died_at")
    return {column: getattr(group, column) for column in columns} | {"sample": _json(group.sample)}


def _json(letter: DeadLetter) -> dict[str, Any]:
    columns = (
        "scheduled_for", "task", "reason", "attempts", "error", "fingerprint", "worker", "queue", "died_at",
        "redriven_at", "redrives",
    )  # fmt: skip
    return {
        "id": letter.pk,
        "fire": letter.fire_id,
        "job": letter.job_id,
        "name": _name(letter),
        "tenant": letter.tenant.slug if letter.tenant else None,
        **{column: getattr(letter, column) for column in columns},
    }


def _name(letter: DeadLetter) -> str:
    """Of its job, as a person types it; empty where there is none any more."""
    if letter.job is None or letter.tenant is None:
        return ""
    return f"{letter.tenant.slug}/{letter.job.name or letter.job.pk}"


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise InvalidField("limit", text, "is not a number from 1 on")
    return int(text)
