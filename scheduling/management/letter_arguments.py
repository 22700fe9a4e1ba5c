"""What the commands on dead letters share: naming them one by one, by what they have in common, or all."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from scheduling.core.errors import InvalidField
from scheduling.core.local_moments import read_end, read_start
from scheduling.models import DeadLetter, DeathReason
from scheduling.services.dead_letters import LetterFilter, letters_named
from scheduling.services.find_job import find_job

_GIVEN = ("tenant", "job", "task", "reason", "fingerprint", "died_after", "died_before")


def add_letter_arguments(parser: CommandParser) -> None:
    parser.add_argument("letters", nargs="*", metavar="ID", help="the number of a dead letter, or the id of its fire")
    parser.add_argument("--tenant", default="", metavar="SLUG", help="those of this tenant")
    parser.add_argument("--job", default="", metavar="JOB", help="those of this job: TENANT/NAME, or its id")
    parser.add_argument("--task", default="", metavar="NAME", help="those of this task")
    parser.add_argument("--reason", default="", metavar="REASON", help=f"those that died so: {', '.join(DeathReason)}")
    parser.add_argument("--fingerprint", default="", metavar="DIGITS", help="those that died of the same")
    parser.add_argument("--died-after", default="", metavar="ISO", help="2026-03-08 or 2026-03-08T09:00, in UTC")
    parser.add_argument("--died-before", default="", metavar="ISO", help="the same; a day is meant to its end")


def letters_of(options: dict[str, Any], *, redriven: bool = False) -> QuerySet[DeadLetter]:
    """Those that were named; else those that match, which is all where nothing is given.

    Raises InvalidField: both are given, or as ``letters_named`` and ``LetterFilter`` do.
    """
    if options["letters"]:
        if also := [name for name in _GIVEN if options[name]]:
            raise InvalidField(also[0], options[also[0]], "cannot be given beside the ids of dead letters")
        return letters_named(options["letters"])
    after, before = options["died_after"], options["died_before"]
    return LetterFilter(
        tenant=options["tenant"],
        job=find_job(options["job"]) if options["job"] else None,
        task=options["task"],
        reason=options["reason"],
        fingerprint=options["fingerprint"],
        died_after=read_start("died_after", after, "UTC") if after else None,
        died_before=read_end("died_before", before, "UTC") if before else None,
        redriven=redriven,
    ).letters()


def check_meant(options: dict[str, Any]) -> None:
    """Who changes letters says which: an empty command line does not mean all of them.

    Raises CommandError.
    """
    are_named = bool(options["letters"]) or any(options[name] for name in _GIVEN)
    if options["all"] and are_named:
        raise CommandError("--all cannot be given beside ids or filters")
    if not options["all"] and not are_named:
        raise CommandError("say which dead letters: ids, filters, or --all")
