"""``manage.py replan_zones``: compute the next occurrences anew, after a change of tzdata."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from scheduling.core.errors import FairbeatError
from scheduling.services.replan_zones import replan_zones


class Command(BaseCommand):
    help = (
        "Compute the next occurrence of all jobs on cron expressions and rules anew, with the tzdata of this process. "
        "A node that starts with another tzdata than the recorded one does this by itself; after an upgrade node by "
        "node, run it once more at the end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print what moved as a JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = replan_zones()
        except FairbeatError as problem:
            raise CommandError(str(problem)) from problem
        except DatabaseError as problem:
            raise CommandError(f"the database does not answer: {str(problem).partition(chr(10))[0]}") from problem
        if options["json"]:
            self.stdout.write(json.dumps(asdict(done), default=str, indent=1))
            return
        self.stdout.write(str(done))
        for move in done.examples:
            self.stdout.write(f"  {move}")
        if done.moved > len(done.examples):
            self.stdout.write(f"  and {done.moved - len(done.examples)} more")
