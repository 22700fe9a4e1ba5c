"""``manage.py pause JOB … --reason WHY``: no fire of their schedules starts until they are resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from scheduling.core.fire import CatchUp
from scheduling.core.local_moments import read_shared
from scheduling.management.jobs_command import JobsCommand
from scheduling.models import Job
from scheduling.services.pause import pause


class Command(JobsCommand):
    help = (
        "Pause jobs: no fire of their schedules starts until they are resumed, or until a set time. What runs goes on, "
        "and what is asked for by hand still runs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", required=True, metavar="WHY", help="for the people who find them paused")
        parser.add_argument("--until", metavar="ISO", help="resume by itself then; without an offset in the job's zone")
        parser.add_argument(
            "--catch-up",
            default=CatchUp.NONE.value,
            metavar="CHOICE",
            help=f"what to bring back then of what was missed: {', '.join(CatchUp)} (none)",
        )

    def operate(self, jobs: Sequence[Job], **options: Any) -> None:
        until = None if options["until"] is None else read_shared("until", options["until"], {job.tz for job in jobs})
        done = pause(jobs, reason=options["reason"], by=options["by"], until=until, catch_up=options["catch_up"])
        words = f"paused: jobs {done.jobs}, fires that had not started and are skipped {done.skipped}"
        self.tell(asdict(done), words, as_json=options["json"])
