"""What all commands that operate share: who does it, JSON, and errors in one sentence."""

from __future__ import annotations

import getpass
import json
from abc import abstractmethod
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from scheduling.core.errors import FairbeatError


class OperatingCommand(BaseCommand):
    """Calls ``operate`` with its options, as ``read`` has read them."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--by", default=_user(), metavar="WHO", help="who does it (the user of this session)")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            self.operate(**self.read(options))
        except FairbeatError as problem:
            raise CommandError(str(problem)) from problem
        except DatabaseError as problem:
            reason = str(problem).strip().partition("\n")[0]
            raise CommandError(f"nothing was done, the database refused: {reason}") from problem

    def read(self, options: dict[str, Any]) -> dict[str, Any]:
        """What people typed, as what it means. Raises FairbeatError."""
        return options

    @abstractmethod
    def operate(self, *_: Any, **options: Any) -> None:
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
