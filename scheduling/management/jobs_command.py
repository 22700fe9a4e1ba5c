"""What the commands that operate on jobs share beside that: naming the jobs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from scheduling.management.operating_command import OperatingCommand
from scheduling.services.find_job import find_job


class JobsCommand(OperatingCommand):
    """``operate`` gets the jobs as ``jobs``. ``named`` is how many may be named: argparse's ``nargs``."""

    named: str | int = "+"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("jobs", nargs=self.named, metavar="JOB", help="TENANT/NAME, or an id")
        super().add_arguments(parser)

    def read(self, options: dict[str, Any]) -> dict[str, Any]:
        return options | {"jobs": [find_job(text) for text in options["jobs"]]}
