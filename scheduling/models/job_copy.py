"""Jobs as rows of COPY's binary format: the fast way in.

Most cells of a row are those of many other rows. So a row is put together from a few runs of cells: what all rows of a
call share, a schedule's, with its first occurrence, for all jobs that say the same, the policies', and the job's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from scheduling.core.copy_format import END, NULL, SIGNATURE
from scheduling.core.definition import OWN_FIELDS, JobDefinition, ScheduleFields, Unsaid
from scheduling.core.identity import SIZE, shards_of, uuid7s
from scheduling.core.recurrence import Schedule
from scheduling.models.copy_cells import begin_row, cell, instant, instants, json, text
from scheduling.models.job_planning import first_fire, first_instant, shard_count

if TYPE_CHECKING:
    from scheduling.models.job import Job

CHUNK = 256  # rows in one write
REMEMBERED = 4096  # plans, and runs of cells
FIRST_VERSION = 1

_SHARED = ("tenant_id", "schedule_version", "schedule_changed_at", "created_at", "updated_at")
_MOMENTS = ("at", "anchor", "dtstart", "start_at", "end_at")
_WORDS = tuple(f.name for f in fields(ScheduleFields) if f.name not in _MOMENTS)
_TEXTS = ("task", "name", "description", "args", "kwargs")
_POLICIES = tuple(name for name in OWN_FIELDS if name not in _TEXTS)
_COLUMNS = (
    "id", "shard_id", "next_scheduled_for", "next_fire_at", *_SHARED, *_WORDS, *_MOMENTS, *_POLICIES, *_TEXTS,
)  # fmt: skip
COPY_JOBS = f"COPY scheduling_job ({', '.join(_COLUMNS)}) FROM STDIN (FORMAT binary)"

_moments, _words, _policies = attrgetter(*_MOMENTS), attrgetter(*_WORDS), attrgetter(*_POLICIES)
_JITTER = _POLICIES.index("jitter")
_NO_MOMENTS = (None,) * len(_MOMENTS)
_BEGIN = begin_row(len(_COLUMNS), SIZE)
_NO_DESCRIPTION, _NO_ARGS = text(""), json("[]")
_task = lru_cache(maxsize=256)(text)

Said = tuple[Any, ...]


class _Plan(NamedTuple):
    """A schedule with its first occurrence."""

    schedule: Schedule
    at: datetime | None
    at_cell: bytes
    cells: bytes  # what all rows share, and the schedule's


class JobRows:
    """The rows of one call: jobs of one tenant, planned from ``now`` on. ``due`` has each shard's earliest fire.

    ``stagger``: the jitter of jobs that name none.
    """

    def __init__(self, model: type[Job], *, tenant_id: int, now: datetime, stagger: timedelta | None = None) -> None:
        self.due: dict[int, datetime] = {}
        self._now, self._stagger = now, stagger
        self._columns = {column.attname: column for column in model._meta.concrete_fields}
        self._shared = self._cells(_SHARED, (tenant_id, FIRST_VERSION, now, now, now))
        self._shards = [self._cells(("shard_id",), (shard,)) for shard in range(shard_count())]
        self._plans: dict[Said, _Plan] = {}
        self._runs: dict[Said, bytes] = {}

    def write(self, definitions: Iterable[JobDefinition], write: Callable[[bytes], None]) -> int:
        """Write them all; returns how many.

        Raises InvalidField.
        """
        count, rest = 0, iter(definitions)
        write(SIGNATURE)
        while batch := list(islice(rest, CHUNK)):
            write(self._rows(batch))
            count += len(batch)
        write(END)
        return count

    def _rows(self, batch: Sequence[JobDefinition]) -> bytes:
        cells: list[bytes] = []
        ids = uuid7s(len(batch))
        for job_id, shard, job in zip(ids, shards_of(ids, len(self._shards)), batch, strict=True):
            schedule, at, at_cell, planned = self._plan(job, job_id)
            fire_cell, jitter, policies = at_cell, job.jitter, _policies(job)
            if self._stagger and isinstance(jitter, Unsaid):
                jitter = self._stagger
                policies = (*policies[:_JITTER], jitter, *policies[_JITTER + 1 :])
            if at is not None:
                if jitter:
                    at = first_fire(schedule, UUID(bytes=job_id), jitter, at)
                    fire_cell = instant(at)
                earliest = self.due.get(shard)
                if earliest is None or at < earliest:
                    self.due[shard] = at
            cells += (
                _BEGIN, job_id, self._shards[shard], at_cell, fire_cell, planned,
                self._run(_POLICIES, policies),
                _task(job.task),
                text(job.name),
                text(job.description) if job.description else _NO_DESCRIPTION,
                _NO_ARGS if job.args_json == "[]" else json(job.args_json),
                json(job.kwargs_json),
            )  # fmt: skip
        return b"".join(cells)

    def _plan(self, job: JobDefinition, job_id: bytes) -> _Plan:
        said = job.schedule
        words, moments = _words(said), _moments(said)
        remembered = moments == _NO_MOMENTS  # equal moments need not be the same instant: those of a fold are not
        plan = self._plans.get(words) if remembered else None
        if plan is None:
            schedule = said.build(UUID(bytes=job_id)) if said.is_spread else job.built
            at = first_instant(schedule, now=self._now)
            cells = self._shared + self._run(_WORDS, words) + self._moment_cells(moments)
            plan = _Plan(schedule, at, NULL if at is None else instant(at), cells)
            if remembered and not said.is_spread:
                _remember(self._plans, words, plan)
        return plan

    def _run(self, names: tuple[str, ...], said: Said) -> bytes:
        cells = self._runs.get(said)
        if cells is None:
            cells = self._cells(names, said)
            _remember(self._runs, said, cells)
        return cells

    def _moment_cells(self, moments: tuple[datetime | None, ...]) -> bytes:
        try:
            return instants(moments)
        except (AttributeError, TypeError):  # none of this kind of schedule's, so nobody has looked at it
            return self._cells(_MOMENTS, moments)

    def _cells(self, names: tuple[str, ...], said: Said) -> bytes:
        return b"".join(
            [
                NULL if value is None else cell(self._columns[name], value)
                for name, value in zip(names, said, strict=True)
            ]
        )


def _remember(known: dict[Said, Any], said: Said, value: Any) -> None:
    if len(known) == REMEMBERED:
        known.clear()
    known[said] = value
