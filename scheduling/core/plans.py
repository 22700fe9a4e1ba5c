"""What a claim writes of a job: a row for each occurrence that is due, and where its schedule goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from scheduling.core.due import DueJob, ScheduledJob
from scheduling.core.fire import Fire, State


@dataclass(slots=True, eq=False)
class PlannedRow:
    """A fire to insert: ``claimed``; ``retry_wait`` until ``wake_at``; or ``skipped`` for a reason.

    ``covers`` occurrences up to ``covers_to`` share it. ``nominal`` are the local times in a gap that it stands for.
    """

    fire: Fire
    state: State = State.CLAIMED
    reason: str = ""
    covers: int = 1
    covers_to: datetime | None = None
    wake_at: datetime | None = None
    nominal: tuple[datetime, ...] = ()

    @property
    def nominal_text(self) -> str:
        return ", ".join(local.isoformat(" ") for local in self.nominal)


@dataclass(slots=True, eq=False)
class JobPlan:
    """What the claim does to one job. ``next_fire_at`` None: it has no further occurrence, or none can be told.

    A ``problem`` is shown with the job until a claim finds it mended. With a schedule that cannot be read the job
    stops; with arguments that cannot be sent it goes on, and each of its occurrences is skipped.

    ``is_plain``: every row is a claimed fire, and nothing but its schedule had a say; so it can be written by the
    shortest way. Where ``fired`` reaches the job's ``max_runs`` the store ends it, whatever comes next: only the store
    knows which of the rows a pause took.
    """

    due: DueJob
    next_scheduled_for: datetime | None
    next_fire_at: datetime | None
    rows: list[PlannedRow] = field(default_factory=list)
    problem: str = ""
    is_plain: bool = False

    @property
    def fired(self) -> int:
        return len(running(self.due.job, self.rows))


def running(job: ScheduledJob, rows: Sequence[PlannedRow]) -> list[datetime]:
    """The occurrences that will run, and so count against ``max_runs``."""
    return sorted(
        row.fire.scheduled_for
        for row in rows
        if row.state is not State.SKIPPED and (job.paused_until is None or row.fire.scheduled_for >= job.paused_until)
    )
