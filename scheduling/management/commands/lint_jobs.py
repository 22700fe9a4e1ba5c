"""``manage.py lint_jobs``: what is allowed and probably not meant, for every job."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from scheduling.services.lint_jobs import lint_jobs


class Command(BaseCommand):
    help = "Print doubts about the schedules of all jobs, a line each. A doubt is no error: the exit status is 0."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print a list of JSON objects")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._print(as_json=options["json"])
        except DatabaseError as problem:
            raise CommandError(f"the database does not answer: {str(problem).partition(chr(10))[0]}") from problem

    def _print(self, *, as_json: bool) -> None:
        if not as_json:
            for finding in lint_jobs():
                self.stdout.write(str(finding))
            return
        separator = "["
        for finding in lint_jobs():
            self.stdout.write(f"{separator}{json.dumps(asdict(finding))}", ending="")
            separator = ",\n "
        self.stdout.write("[]" if separator == "[" else "]")
