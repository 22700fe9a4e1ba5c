"""``manage.py resume JOB …``: end their pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from scheduling.core.fire import CatchUp
from scheduling.management.jobs_command import JobsCommand
from scheduling.models import Job
from scheduling.services.resume import resume


class Command(JobsCommand):
    help = "End the pauses of jobs. Jobs that are not paused are left as they are."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--catch-up",
            default=CatchUp.NONE.value,
            metavar="CHOICE",
            help="what to bring back of what was missed: none, latest (the newest), all (within the job's "
            "catch_up_limit and catch_up_window) (none)",
        )

    def operate(self, jobs: Sequence[Job], **options: Any) -> None:
        done = resume(jobs, by=options["by"], catch_up=options["catch_up"])
        words = f"resumed: jobs {done.jobs}, fires that come back {done.fires}"
        if done.closing:
            words += f"; for {done.closing} of the jobs a node first records what came due until now"
        self.tell(asdict(done), words, as_json=options["json"])
