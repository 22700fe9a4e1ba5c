"""``manage.py redrive (ID … | filters | --all)``: dead letters run again, at a rate; and ``--status``, ``--stop``.

``--json`` prints one object, and of ``--status`` without an id a list of them::

    {"id": 3, "state": "under way", "total": 1200, "moved": 400, "skipped": 0, "left": 800, "rate_per_s": 100.0,
     "left_s": 8.0, "asked_at": "2026-03-02T12:00:00+00:00", "asked_by": "anna", "ended_at": null}

``state``: under way, stopped or finished; ``skipped``: their jobs were deleted meanwhile, or their fires live again.
``--dry-run`` prints how many there are, how many of them can be redriven, and what is against the others::

    {"count": 1210, "ready": 1200, "no_fire": 3, "deleted": 7, "under_way": 0, "redriven": 0, "is_whole": true,
     "counted_at": …}
"""

from __future__ import annotations

from dataclasses import asdict
from time import sleep as _pause
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from scheduling.core.errors import InvalidField
from scheduling.management.letter_arguments import add_letter_arguments, check_meant, letters_of
from scheduling.management.operating_command import OperatingCommand
from scheduling.models import DeadLetter
from scheduling.services.dead_letters import Survey, survey
from scheduling.services.redrive import (
    DEFAULT_RATE_PER_S,
    Progress,
    RedriveState,
    ask_redrive,
    latest,
    progress,
    stop_redrive,
)

SHOWN = 20  # redrives
WAIT_S = 1.0  # between two looks


class Command(OperatingCommand):
    help = (
        "Have dead letters run again: by their ids, all that match, or --all that wait. The nodes move them at --rate; "
        "the idempotency keys stay. --dry-run counts them first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_letter_arguments(parser)
        parser.add_argument("--all", action="store_true", help="all dead letters that wait")
        parser.add_argument(
            "--rate", default=str(DEFAULT_RATE_PER_S), metavar="N", help=f"how many a second ({DEFAULT_RATE_PER_S:g})"
        )
        parser.add_argument("--dry-run", action="store_true", help="say how many there are, and move none")
        parser.add_argument("--wait", action="store_true", help="until the nodes have moved them all, or it is stopped")
        parser.add_argument("--status", nargs="?", const="", metavar="REDRIVE", help="how far it, or each, has got")
        parser.add_argument("--stop", metavar="REDRIVE", help="move no more: what had not moved stays dead")
        super().add_arguments(parser)

    def operate(self, **options: Any) -> None:
        if options["stop"] is not None:
            self._say(Progress.of(stop_redrive(_number(options["stop"]), by=options["by"])), options)
        elif options["status"] is not None:
            self._status(options)
        elif options["dry_run"]:
            found = survey(_letters(options))
            self.tell(asdict(found), f"{words(found)} (dry run: nothing was moved)", as_json=options["json"])
        else:
            asked = ask_redrive(_letters(options), by=options["by"], rate_per_s=_rate(options["rate"]))
            self._say(self._waited(asked.pk) if options["wait"] else Progress.of(asked), options)

    def _status(self, options: dict[str, Any]) -> None:
        if options["status"]:
            self._say(progress(_number(options["status"])), options)
            return
        found = latest(SHOWN)
        lines = "\n".join(map(str, found)) or "there was no redrive yet"
        self.tell([asdict(one) for one in found], lines, as_json=options["json"])

    def _waited(self, redrive_id: int) -> Progress:
        try:
            while (found := progress(redrive_id)).state is RedriveState.UNDER_WAY:
                self.stderr.write(str(found))
                _pause(WAIT_S)
        except KeyboardInterrupt:
            raise CommandError(f"redrive {redrive_id} goes on; --stop {redrive_id} ends it") from None
        return found

    def _say(self, found: Progress, options: dict[str, Any]) -> None:
        self.tell(asdict(found), str(found), as_json=options["json"])


def words(found: Survey) -> str:
    """How many, and what is against some of them."""
    beyond = "" if found.is_whole else "the first "
    against = f"; not: {', '.join(found.against)}" if found.against else ""
    return f"{found.ready} of {beyond}{found.count} dead letters can be redriven{against}"


def _letters(options: dict[str, Any]) -> QuerySet[DeadLetter]:
    check_meant(options)
    return letters_of(options)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise InvalidField("redrive", text, "is not the number of a redrive")
    return int(text)


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidField("rate", text, "is not a number") from None
