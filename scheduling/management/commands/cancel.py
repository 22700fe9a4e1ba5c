"""``manage.py cancel JOB|FIRE …``: what has not started never does, and what runs is asked to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from scheduling.management.operating_command import OperatingCommand
from scheduling.models import Job
from scheduling.services.cancel import Cancelled, cancel_fires
from scheduling.services.find_job import find_job

_FIRE_VERSION = 8  # of its id as a UUID; the ids of jobs are of version 7


class Command(OperatingCommand):
    help = (
        "Cancel fires, by their ids, or all unfinished ones of a job: what has not started never does, and what runs "
        "is asked to stop. What is still to come of the schedule is not touched: pause or delete the job for that."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("targets", nargs="+", metavar="JOB|FIRE", help="TENANT/NAME of a job, or an id of either")
        parser.add_argument("--reason", default="", metavar="WHY", help="what those that run are told")
        super().add_arguments(parser)

    def read(self, options: dict[str, Any]) -> dict[str, Any]:
        fires: list[UUID] = []
        jobs: list[Job] = []
        for text in options.pop("targets"):
            fire = _fire_id(text)
            if fire is None:
                jobs.append(find_job(text))
            else:
                fires.append(fire)
        return options | {"fires": fires, "jobs": jobs}

    def operate(self, fires: Sequence[UUID], jobs: Sequence[Job], **options: Any) -> None:
        done = cancel_fires(fires=fires, jobs=jobs, by=options["by"], reason=options["reason"])
        self.tell(asdict(done), words(done), as_json=options["json"])


def words(done: Cancelled) -> str:
    said = f"cancelled: {done.at_once} that did not run, asked to stop: {done.asked} that run"
    if done.sent:
        said += f"; sent to plain Celery tasks, and not to be called back: {done.sent}"
    return said + (f"; ended before: {done.over}" if done.over else "")


def _fire_id(text: str) -> UUID | None:
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if found.version == _FIRE_VERSION else None
