"""``manage.py import_jobs FILE``: bring the jobs of a file of JSON lines in, or say what that would do."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.core.errors import FairbeatError
from scheduling.services.import_jobs import Change, Verdict, import_jobs


class Command(BaseCommand):
    help = (
        "Import jobs from a file of JSON lines: tenant, name, and one of cron, interval or minimum_interval; optional "
        "timeout, max_concurrency, task, args, kwargs, tz, lane, anchor. Jobs are found again by tenant and name. A "
        "bad line is reported with its number and does not stop the others; the exit status is then 1."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="the file, or - for standard input")
        parser.add_argument("--task", default="", help="Celery task of the lines that name none")
        parser.add_argument("--dry-run", action="store_true", help="print a verdict for each line, and write nothing")
        parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")

    def handle(self, *args: Any, file: str, task: str, dry_run: bool, **options: Any) -> None:
        try:
            verdicts = import_jobs(_lines(file), default_task=task, dry_run=dry_run)
        except OSError as problem:
            raise CommandError(f"file {file!r}: {problem.strerror}") from problem
        except FairbeatError as problem:
            raise CommandError(str(problem)) from problem
        if options["json"]:
            self.stdout.write(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
        else:
            self._print(verdicts, dry_run=dry_run)
        refused = [verdict for verdict in verdicts if verdict.change is Change.REFUSED]
        if refused:
            sentence = f"{len(refused)} of {len(verdicts)} lines were refused, the first is {refused[0]}"
            raise CommandError(sentence)

    def _print(self, verdicts: list[Verdict], *, dry_run: bool) -> None:
        for verdict in verdicts:
            if dry_run or verdict.change is Change.REFUSED or verdict.detail:
                self.stdout.write(str(verdict))
            for caution in verdict.cautions:
                self.stdout.write(f"  warning: {caution}")
        count = Counter(verdict.change for verdict in verdicts)
        told = ", ".join(f"{count[change]} {change}" for change in Change)
        self.stdout.write(f"{told}{' (dry run: nothing was written)' if dry_run else ''}")


def _lines(file: str) -> Iterable[bytes]:
    return sys.stdin.buffer if file == "-" else Path(file).read_bytes().split(b"\n")
