"""``manage.py repair_entries``: after a partial restore, put jobs that have lost their entry back to their rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from scheduling.services.repair_entries import repair_entries


class Command(BaseCommand):
    help = (
        "Find jobs whose next occurrence should be an entry of the time buckets, and is none: they would never fire. "
        "They go back to their rows, and catch up by their misfire policies. For after a restore; nodes may run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the outcome as a JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = repair_entries()
        except DatabaseError as problem:
            raise CommandError(f"the database does not answer: {str(problem).partition(chr(10))[0]}") from problem
        self.stdout.write(json.dumps(asdict(done)) if options["json"] else str(done))
