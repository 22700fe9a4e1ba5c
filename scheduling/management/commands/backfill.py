"""``manage.py backfill JOB --from DAY --until DAY``: run a job for occurrences of the past."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import CommandParser

from scheduling.core.errors import InvalidField
from scheduling.core.local_moments import read_end, read_start
from scheduling.management.jobs_command import JobsCommand
from scheduling.models import Job
from scheduling.services.backfill import (
    DEFAULT_RATE_PER_S,
    BackfillOverlap,
    BackfillPlan,
    backfill,
    plan_backfill,
)

SAMPLE = 3


class Command(JobsCommand):
    help = (
        "Run a job for the occurrences of its schedule between two days or moments of the past, both included, read in "
        "the job's zone where they have no offset. --dry-run counts them first."
    )
    named = 1

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--from", dest="start", required=True, metavar="ISO", help="2026-03-08 or 2026-03-08T09:00")
        parser.add_argument("--until", required=True, metavar="ISO", help="the same; a day is meant to its end")
        parser.add_argument(
            "--overlap",
            default=BackfillOverlap.ONE_AT_A_TIME.value,
            metavar="HOW",
            help=f"{' or '.join(BackfillOverlap)} ({BackfillOverlap.ONE_AT_A_TIME})",
        )
        parser.add_argument(
            "--rate", default=str(DEFAULT_RATE_PER_S), metavar="N", help=f"how many a second ({DEFAULT_RATE_PER_S:g})"
        )
        parser.add_argument("--request", metavar="ID", help="the same request once more makes nothing twice")
        parser.add_argument("--dry-run", action="store_true", help="say how many there are, and make none")

    def operate(self, jobs: Sequence[Job], **options: Any) -> None:
        [job] = jobs
        start, until = read_start("from", options["start"], job.tz), read_end("until", options["until"], job.tz)
        if options["dry_run"]:
            plan = plan_backfill(job, start=start, until=until)
            words = f"{_told(plan, job)} (dry run: nothing was made)"
            self.tell(_json(plan), words, as_json=options["json"])
            return
        done = backfill(
            job,
            start=start,
            until=until,
            by=options["by"],
            overlap=options["overlap"],
            rate_per_s=_rate(options["rate"]),
            request=options["request"],
        )
        words = f"{_told(done.plan, job)}; made {done.made} fires, origin {done.origin}"
        self.tell({"origin": done.origin, "made": done.made, **_json(done.plan)}, words, as_json=options["json"])


def _told(plan: BackfillPlan, job: Job) -> str:
    excluded = f", and {plan.excluded} that its calendar excludes" if plan.excluded else ""
    if not plan.count:
        return f"no occurrences{excluded}"
    first, last = (_local(at, job.tz) for at in (plan.occurrences[0], plan.occurrences[-1]))
    return f"{plan.count} occurrences, from {first} to {last}{excluded}"


def _local(moment: datetime, tz: str) -> str:
    return moment.astimezone(ZoneInfo(tz)).isoformat(" ")


def _json(plan: BackfillPlan) -> dict[str, Any]:
    return {
        "from": plan.start,
        "until": plan.until,
        "count": plan.count,
        "excluded": plan.excluded,
        "first": plan.occurrences[0] if plan.count else None,
        "last": plan.occurrences[-1] if plan.count else None,
        "sample": plan.occurrences[:SAMPLE],
    }


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidField("rate", text, "is not a number") from None
