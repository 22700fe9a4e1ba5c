"""What the commands that operate on jobs share: naming the jobs, who does it, JSON, and errors in one sentence."""

from __future__ import annotations

import getpass
import json
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from scheduling.core.errors import FairbeatError
from scheduling.models import Job
from scheduling.services.find_job import find_job


class JobsCommand(BaseCommand):
    """Finds the jobs, then calls ``operate`` with them. ``named`` is how many may be named: argparse's ``nargs``."""

    named: str | int = "+"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("jobs", nargs=self.named, metavar="JOB", help="TENANT/NAME, or an id")
        parser.add_argument("--by", default=_user(), metavar="WHO", help="who does it (the user of this session)")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *_: Any, jobs: Sequence[str], **options: Any) -> None:
        try:
            self.operate([find_job(text) for text in jobs], **options)
        except FairbeatError as problem:
            raise CommandError(str(problem)) from problem
        except DatabaseError as problem:
            reason = str(problem).strip().partition("\n")[0]
            raise CommandError(f"nothing was done, the database refused: {reason}") from problem

    @abstractmethod
    def operate(self, jobs: Sequence[Job], **options: Any) -> None:
        """Raises FairbeatError, which becomes the sentence of a CommandError."""

    def tell(self, outcome: Any, words: str, *, as_json: bool) -> None:
        self.stdout.write(json.dumps(outcome, indent=1, default=_text) if as_json else words)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "command line"
