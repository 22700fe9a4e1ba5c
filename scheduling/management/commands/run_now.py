"""``manage.py run_now JOB …``: run jobs now, beside their schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from scheduling.management.jobs_command import JobsCommand
from scheduling.models import Job
from scheduling.services.run_now import run_now


class Command(JobsCommand):
    help = "Run jobs now, beside their schedules, also while they are paused. Prints the id of each fire."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--request", metavar="ID", help="the same request once more runs nothing twice")

    def operate(self, jobs: Sequence[Job], **options: Any) -> None:
        started = run_now(jobs, by=options["by"], request=options["request"])
        names = {job.pk: f"{job.tenant.slug}/{job.name or job.pk}" for job in jobs}
        lines = [
            f"{names[one.job_id]}: fire {one.fire_id}{'' if one.is_new else ' (this request was made before)'}"
            for one in started
        ]
        self.tell([asdict(one) for one in started], "\n".join(lines), as_json=options["json"])
