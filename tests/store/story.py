"""Random stories of an owner and the people round it, told alike to every store: what each leaves must be equal.

A story is drawn from its seed before it is told, so that nothing in it depends on the store: jobs of every kind are
made, time passes, the owner looks; people edit, pause, resume and delete; workers start what they are sent; the owner
is taken over from, or starts again with another store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from django.db import connection

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition
from scheduling.core.errors import InvalidField
from scheduling.models import Calendar, Fire, Job
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.store.bucketed import BucketedStore
from scheduling.store.connection import connector
from scheduling.store.next_runs import next_runs
from scheduling.store.postgres import PostgresStore
from tests.store.owner import Owner, acquire

EIGHT = datetime(2026, 3, 2, 8, tzinfo=UTC)
TASK = "tests.none"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SLUGS = ("acme", "bolt")
IMPOSSIBLE = "61 * * * *"
Step = tuple[str, dict[str, Any]]


class Story:
    """``shape`` weighs its steps, by name."""

    def __init__(self, seed: int, *, jobs: int = 6, steps: int = 25, shape: dict[str, int] | None = None) -> None:
        self._random = Random(seed)
        self._ids = [UUID(int=self._random.getrandbits(128)) for _ in range(jobs)]
        self._weights = {**WEIGHTS, **(shape or {})}
        self._count = steps
        self.steps = list(self._drawn())

    def _drawn(self) -> Iterator[Step]:
        for number in range(len(self._ids)):
            yield "create", {"number": number, "definition": self._definition()}
        names, weights = list(self._weights), list(self._weights.values())
        for _ in range(self._count):
            (name,) = self._random.choices(names, weights)
            yield name, getattr(self, f"_{name}")()
        yield "pass_", {"by": timedelta(0)}

    # -- what is drawn ------------------------------------------------------------------------------------------

    def _pass_(self) -> dict[str, Any]:
        small = [SECOND * 0.3, SECOND, SECOND * 5, SECOND * 20, SECOND * 29, MINUTE, MINUTE * 2]
        large = [MINUTE * 5, MINUTE * 10, MINUTE * 61, MINUTE * 65, MINUTE * 130, timedelta(hours=26)]
        by = self._random.choice(small if self._random.random() < 0.8 else large)
        ahead_s, limit = self._random.choice([0, 0, 1, 1, 30, 90]), self._random.choice([1000, 1000, 2])
        return {"by": by, "ahead_s": ahead_s, "limit": limit}

    def _idle(self) -> dict[str, Any]:
        """Time passes, and nobody looks."""
        return {"by": self._random.choice([SECOND * 0.4, SECOND * 7, MINUTE, MINUTE * 3])}

    def _back(self) -> dict[str, Any]:
        return {"by": self._random.choice([SECOND * 0.2, SECOND * 3, SECOND * 90])}

    def _number(self) -> int:
        return self._random.randrange(len(self._ids))

    def _edit(self) -> dict[str, Any]:
        return {
            "number": self._number(),
            "what": self._change(),
            "way": self._random.choice(["save", "update"]),
        }

    def _mend(self) -> dict[str, Any]:
        """To something impossible, and back; perhaps looked at in between."""
        return {"number": self._number(), "cron": self._cron(), "is_looked_at": self._random.random() < 0.5}

    def _pause(self) -> dict[str, Any]:
        until = self._random.choice([None, SECOND, SECOND * 10, MINUTE, MINUTE * 7])
        return {"number": self._number(), "until": until, "catch_up": self._random.choice(["none", "latest", "all"])}

    def _raw_pause(self) -> dict[str, Any]:
        return {"number": self._number()}

    def _resume(self) -> dict[str, Any]:
        return {"number": self._number(), "catch_up": self._random.choice(["none", "latest", "all"])}

    def _delete(self) -> dict[str, Any]:
        return {"number": self._number(), "way": self._random.choice(["delete", "delete", "sql"])}

    def _again(self) -> dict[str, Any]:
        return {"number": self._number(), "definition": self._definition()}

    def _take_over(self) -> dict[str, Any]:
        shards = self._random.choice([range(64), range(0, 64, 2), range(20), self._random.sample(range(64), 30)])
        return {"shards": list(shards), "by_another": self._random.random() < 0.6}

    def _switch(self) -> dict[str, Any]:
        return {}

    def _upkeep(self) -> dict[str, Any]:
        return {"what": self._random.choice(["promote", "expire", "reap"])}

    def _work(self) -> dict[str, Any]:
        return {"modulus": self._random.choice([1, 2, 3])}

    def _policy(self) -> dict[str, Any]:
        """No edit of the schedule."""
        return {"number": self._number(), "misfire": self._random.choice(["latest", "earliest", "all", "skip"])}

    def _calendar(self) -> dict[str, Any]:
        return {"hours": self._hours()}

    def _tenant(self) -> dict[str, Any]:
        slug, is_renamed = self._random.choice(SLUGS), self._random.random() < 0.3
        return {"number": self._number(), "slug": slug, "is_renamed": is_renamed}

    def _hours(self) -> list[dict[str, str]]:
        minute = self._random.randrange(0, 59)
        return [{"begins": f"08:{minute:02}", "ends": f"08:{minute + 1:02}"}]

    def _cron(self) -> str:
        every_minute = ["* * * * *", "*/2 * * * *", "*/10 * * * *", "1,2,3,7 * * * *", "*/15 * * * * *", "H * * * *"]
        daily = ["0 9 * * *", "30 8 * * *", "5 8,9,10 * * *", "0 10 3 3 *"]
        return self._random.choice(every_minute if self._random.random() < 0.75 else daily)

    def _change(self) -> dict[str, Any]:
        choice = self._random.random()
        if choice < 0.4:
            return {"kind": "cron", "cron": self._cron()}
        if choice < 0.6:
            return {"kind": "interval", "every": self._every(), "anchor": EIGHT}
        if choice < 0.75:
            return {"jitter": self._jitter()}
        if choice < 0.85:
            return {"max_runs": self._random.choice([None, 1, 3, 10])}
        if choice < 0.92:
            return {"calendar_id": self._random.choice([None, 1])}
        return {"end_at": self._random.choice([None, EIGHT + MINUTE * 20, EIGHT + timedelta(hours=3)])}

    def _every(self) -> timedelta:
        return self._random.choice([SECOND, SECOND * 1.5, SECOND * 7, MINUTE, MINUTE, MINUTE * 10, MINUTE * 90])

    def _jitter(self) -> timedelta:
        return self._random.choice([timedelta(0), SECOND * 0.5, SECOND * 40, MINUTE * 5])

    def _definition(self) -> dict[str, Any]:
        rare = self._random.random
        said: dict[str, Any] = {
            "jitter": self._jitter() if rare() < 0.35 else timedelta(0),
            "misfire": self._random.choice(["latest", "latest", "all", "skip", "earliest"]),
            "catch_up_limit": self._random.choice([3, 100]),
            "max_runs": self._random.choice([1, 3, 20]) if rare() < 0.15 else None,
            "calendar_id": 1 if rare() < 0.15 else None,
            "overlap": "skip" if rare() < 0.2 else "allow",
        }
        if rare() < 0.15:
            said["end_at"] = EIGHT + self._random.choice([MINUTE * 3, MINUTE * 70])
        if rare() < 0.1:
            said["start_at"] = EIGHT + MINUTE
        kind = rare()
        if kind < 0.1:
            return {"once": EIGHT + self._random.choice([SECOND * 5, MINUTE * 5]), **said}
        if kind < 0.5:
            return {"every": self._every(), "anchor": EIGHT - timedelta(hours=1), **said}
        if kind < 0.55:
            return {"rrule": "FREQ=MINUTELY;INTERVAL=3", "dtstart": EIGHT, **said}
        return {"cron": self._cron(), "tz": self._random.choice(["UTC", "UTC", "Europe/Paris"]), **said}

    # -- telling ------------------------------------------------------------------------------------------------

    def told(self, store: str) -> list[str]:
        """What is left when it has been told to this store, on an empty database: a line for each fire and each job."""
        teller = Teller(self._ids, store)
        try:
            for name, values in self.steps:
                getattr(teller, name)(**values)
            return teller.left()
        finally:
            teller.close()


WEIGHTS = {
    "pass_": 30, "idle": 6, "edit": 12, "mend": 2, "pause": 5, "raw_pause": 1, "resume": 5, "delete": 1, "again": 1,
    "take_over": 2, "switch": 3, "upkeep": 8, "work": 6, "back": 1, "policy": 2, "calendar": 1, "tenant": 2,
}  # fmt: skip


class Teller:
    """Each step of a story is a method."""

    def __init__(self, ids: list[UUID], store: str) -> None:
        self._ids, self._is_bucketed = ids, store == "bucketed"
        self._makes = deque([BucketedStore, PostgresStore] if self._is_bucketed else [PostgresStore])
        self.now = EIGHT
        self.owner = Owner(EIGHT, make=self._makes[0])
        self._another = self._second()
        for slug in SLUGS:
            Tenant.objects.create(slug=slug)
        Calendar.objects.create(id=1, name="closed")

    def _second(self) -> PostgresStore:
        return self._makes[0](connector(connection.get_connection_params(), name="another"))

    def close(self) -> None:
        self.owner.store.close()
        self._another.close()

    def _job(self, number: int) -> Job | None:
        return Job.objects.filter(pk=self._ids[number], deleted_at=None).first()

    def create(self, number: int, definition: dict[str, Any]) -> None:
        said = dict(definition)
        if "once" in said:
            made = JobDefinition.once_job(TASK, said.pop("once"), **said)
        elif "every" in said:
            made = JobDefinition.interval_job(TASK, said.pop("every"), **said)
        elif "rrule" in said:
            made = JobDefinition.rrule_job(TASK, said.pop("rrule"), **said)
        else:
            made = JobDefinition.cron_job(TASK, said.pop("cron"), **said)
        tenant_id = self._tenant_id(SLUGS[number % 2])
        Job(id=self._ids[number], tenant_id=tenant_id, **made.columns()).save(force_insert=True)

    def _tenant_id(self, slug: str) -> int:
        return Tenant.objects.filter(slug__startswith=slug).values_list("id", flat=True).get()

    def pass_(self, by: timedelta, ahead_s: float = 0, limit: int = 1000) -> None:
        self.now = self.now + by
        self._look(ahead_s, limit)

    def _look(self, ahead_s: float = 0, limit: int = 1000) -> None:
        for _ in range(40):  # what is locked by nobody is done after a few
            if not self.owner.look(self.now, ahead_s=ahead_s, limit=limit):
                return
        raise AssertionError(f"there is no end to what is due at {self.now}")

    def idle(self, by: timedelta) -> None:
        self.now = self.owner.at(self.now + by)

    def back(self, by: timedelta) -> None:
        self.now = self.owner.at(self.now - by)

    def edit(self, number: int, what: dict[str, Any], way: str) -> None:
        if (job := self._job(number)) is None:
            return
        for name, value in what.items():
            setattr(job, name, value)
        try:
            job.definition()
        except InvalidField:
            return
        if way == "save":
            job.save()
        else:
            Job.objects.filter(pk=job.pk).update(**what)

    def mend(self, number: int, cron: str, is_looked_at: bool) -> None:
        jobs = Job.objects.filter(pk=self._ids[number], deleted_at=None)
        jobs.update(kind="cron", cron=IMPOSSIBLE)
        if is_looked_at:
            self._look()
        jobs.update(cron=cron)

    def policy(self, number: int, misfire: str) -> None:
        Job.objects.filter(pk=self._ids[number]).update(misfire=misfire)

    def pause(self, number: int, until: timedelta | None, catch_up: str) -> None:
        if (job := self._job(number)) is not None:
            end = None if until is None else self.now + until
            pause([job], reason="because", by="anna", until=end, catch_up=catch_up)

    def raw_pause(self, number: int) -> None:
        Job.objects.filter(pk=self._ids[number], deleted_at=None).update(paused_at=self.now, paused_until=None)

    def resume(self, number: int, catch_up: str) -> None:
        if (job := self._job(number)) is not None:
            resume([job], by="ben", catch_up=catch_up)
            self._look()
            self.owner.reap()

    def delete(self, number: int, way: str) -> None:
        if way == "sql":
            with connection.cursor() as cursor:
                cursor.execute("DELETE FROM scheduling_job WHERE id = %s", [self._ids[number]])
        elif (job := self._job(number)) is not None:
            job.delete()

    def again(self, number: int, definition: dict[str, Any]) -> None:
        """A job under the id of one that was deleted for good."""
        if not Job.objects.filter(pk=self._ids[number]).exists():
            self.create(number, definition)

    def take_over(self, shards: list[int], by_another: bool) -> None:
        self.owner.take_over(shards, self._another if by_another else None)

    def switch(self) -> None:
        """All nodes were down; with the bucketed store, they come back with the other one."""
        if self._is_bucketed:
            self._makes.rotate()
        self.close()
        self.owner.start_again(self._makes[0])
        self._another = self._second()

    def upkeep(self, what: str) -> None:
        getattr(self.owner, what)()

    def work(self, modulus: int) -> None:
        """Workers are told of some of what is claimed."""
        claimed = Fire.objects.filter(state="claimed", origin="", fire_at__lte=self.now)
        for fire in claimed.select_related("tenant").order_by("scheduled_for", "job_id")[:20]:
            if int(fire.scheduled_for.timestamp()) % modulus == 0 and Job.objects.filter(pk=fire.job_id).exists():
                acquire(fire)

    def calendar(self, hours: list[dict[str, str]]) -> None:
        Calendar.objects.update(hours=hours)

    def tenant(self, number: int, slug: str, is_renamed: bool) -> None:
        if is_renamed:
            Tenant.objects.filter(pk=self._tenant_id(slug)).update(slug=f"{slug}-{self.now:%H%M%S}")
        else:
            Job.objects.filter(pk=self._ids[number]).update(tenant=self._tenant_id(slug))

    # -- what is left -------------------------------------------------------------------------------------------

    def left(self) -> list[str]:
        self.owner.reap()
        self._look()
        number_of = {job: number for number, job in enumerate(self._ids)}
        fires = [
            f"job {number_of[fire.job_id]}: {fire.scheduled_for:%d %H:%M:%S.%f} {fire.state} {fire.reason}"
            f" fire_at {fire.fire_at:%d %H:%M:%S.%f} fence {fire.fence} attempt {fire.attempt}"
            f" version {fire.schedule_version} covers {fire.covers} {fire.covers_to} wake {fire.wake_at}"
            f" {fire.nominal} {fire.exclusive}"
            for fire in Fire.objects.all()
        ]
        runs = next_runs(connection.connection, self._ids)
        planned = {job_id for job_id, run in runs.items() if run.scheduled_for is not None or run.fire_at is None}
        jobs = [
            f"job {number_of[job.pk]} next {runs[job.pk]} problem {job.problem!r} version {job.schedule_version}"
            f" paused {job.paused_at} {job.paused_until}"
            + (f" fired {job.fired}" if job.max_runs is not None and job.pk in planned else "")
            for job in Job.objects.all()
        ]
        return sorted(fires + jobs)
