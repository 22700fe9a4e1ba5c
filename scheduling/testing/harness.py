"""``Harness``: schedules, tasks and their failures in a test, with the clock in the test's hand.

::

    run_until ──▶ the clock moves to what is due next ──▶ the node claims and publishes it ──▶ a worker runs it ─┐
        ▲                                                                                                        │
        └──────────────────────── until the moment is reached, retries and snoozes included ─────────────────────┘

Engine, store, ledger and tasks are the real ones, on the test's database and connection, and so are the decisions about
misfires, overlap, retries and leases. Only time, the broker and the processes are played: nothing sleeps, no thread is
started, nothing is sent anywhere. One thread uses it. Does not do: time limits of tasks, fairness between tenants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings as django_settings
from django.db import router

from scheduling.conf import scheduling_settings
from scheduling.core.errors import FairbeatError, InvalidField
from scheduling.core.recurrence.schedule import utc
from scheduling.failpoints import Point
from scheduling.models import Fire, Job
from scheduling.services.run_now import Started, run_now
from scheduling.store.ledger_port import Acquired
from scheduling.testing.broker import MemoryBroker, Message
from scheduling.testing.commits import committing, is_broken
from scheduling.testing.deaths import Died, dying_at
from scheduling.testing.idempotency import compare_runs
from scheduling.testing.joined import joins
from scheduling.testing.node import PlayedNode
from scheduling.testing.published import Expected, task_name
from scheduling.testing.rows import Rows
from scheduling.testing.run import Run
from scheduling.testing.times import Times
from scheduling.testing.worker import PlayedWorker
from scheduling.worker.process import in_place

MOST_AT_ONCE = 10_000  # deliveries at one moment: something brings itself back without waiting
FAR = timedelta(days=36525)


class Harness:
    """Use it as a context manager, or as the pytest fixture ``fairbeat``.

    ``start`` is what the clock shows at first: now, unless it is given. ``using`` is the alias of the database.
    """

    runs: list[Run]  # all so far

    def __init__(self, *, start: datetime | None = None, using: str | None = None) -> None:
        self._using = using or router.db_for_write(Fire)
        self._settings = scheduling_settings(django_settings)
        self._start = None if start is None else utc("start", start)
        self._exits = ExitStack()

    def __enter__(self) -> Harness:
        with committing(self._using):
            self._times = Times(joins(self._using), using=self._using, start=self._start)
            self._times.begin()
        self._broker = MemoryBroker()
        self._worker = PlayedWorker(self._using, lease_s=self._settings.FIRE_LEASE_S, clock=self._times.clock)
        self._node: PlayedNode | None = None
        self._node_at: datetime | None = None  # when the next one starts; None: as soon as it is wanted
        self.runs = []
        self._exits.enter_context(in_place(self._worker.process))
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()
        if not is_broken(self._using):  # else its transaction ends with the test, and the clock with that
            with committing(self._using):
                self._times.end()

    # -- time ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """Job time, aware UTC."""
        return self._times.now

    def set_time(self, now: datetime) -> None:
        """The clock jumps, as over an outage: what came due in between is late, and its misfire policy decides."""
        with committing(self._using):
            if (moment := utc("now", now)) < self.now:
                self._node_at = None
            self._times.jump_to(moment)
            self._worker.heartbeat.beat()

    def run_until(self, moment: datetime) -> list[Run]:
        """Move the clock to this moment, and on its way run everything when it comes due; gives the runs, in order."""
        moment = utc("moment", moment)
        if moment < self.now:
            raise InvalidField("moment", str(moment), f"has passed, it is {self.now}; only set_time() goes back")
        before = len(self.runs)
        with committing(self._using):
            self._work()
            while (at := self.next_moment()) is not None and at <= moment:
                self._move_to(at)
                self._work()
            self._move_to(moment)
        return self.runs[before:]

    def run_for(self, span: timedelta) -> list[Run]:
        """``run_until`` so much later."""
        return self.run_until(self.now + span)

    def drain(self) -> list[Run]:
        """Run what is due by now and what waits in the broker; the clock stands."""
        before = len(self.runs)
        with committing(self._using):
            self._work()
        return self.runs[before:]

    def next_moment(self) -> datetime | None:
        """When something comes due that is not due by now, leases included; None: nothing ever does."""
        moment = self._times.look().next_moment
        if self._node_at is None:
            return moment
        return self._node_at if moment is None else min(moment, self._node_at)

    def beat(self) -> None:
        """The heartbeat of the workers: what runs just now hears whether it is to stop, or has lost its lease."""
        with committing(self._using):
            self._worker.heartbeat.beat()

    def _move_to(self, moment: datetime) -> None:
        if moment > self.now:  # else a task has moved the clock
            self._times.move_to(moment)
            self._worker.heartbeat.beat()

    # -- work ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """All there is to do at this moment."""
        self._publish()
        for _ in range(MOST_AT_ONCE):
            message = self._next_message()
            if message is None:
                return
            try:
                self._deliver(message)
            except Died:
                self._broker.return_to_queue(message)
        raise FairbeatError(f"{MOST_AT_ONCE} messages were delivered at {self.now}; the last one was {message}")

    def _next_message(self) -> Message | None:
        """Out of the queue; where that is empty, what has come due meanwhile is published first."""
        if not self._broker.waiting and self._times.look().by_now:
            self._publish()
        return self._broker.take()

    def _publish(self) -> None:
        """What is due by now; nothing while the node is dead."""
        try:
            if self._node is None and (self._node_at is None or self._node_at <= self.now):
                node = PlayedNode(self._using, broker=self._broker, clock=self._times.clock, settings=self._settings)
                node.start()
                self._node, self._node_at = node, None
            if self._node is not None:
                self._node.settle()
        except Died:
            self._node, self._node_at = None, self.now + timedelta(seconds=self._settings.LEASE_S)

    def _deliver(self, message: Message) -> None:
        """What has run is noted. Raises Died."""
        try:
            delivered = self._worker.deliver(message)
        except Died as death:
            self._note(message, str(death))
            raise
        if delivered.has_run:
            self._note(message, delivered.error, delivered.verdict)

    def _note(self, message: Message, error: str, verdict: object = None) -> None:
        fire = self.fire(message.fire_id)
        attempt = verdict.attempt if isinstance(verdict, Acquired) else max(1, fire.attempt)
        facts = {name: getattr(message, name) for name in ("fire_id", "task", "name", "tenant", "scheduled_for")}
        self.runs.append(Run(**facts, attempt=attempt, state=fire.state, error=error))

    def fire(self, fire_id: UUID) -> Fire:
        """Its row, as it is by now."""
        return Fire.objects.using(self._using).by_id(fire_id)

    # -- assertions ---------------------------------------------------------------------------------------------

    def assert_enqueued(
        self,
        task: Any = None,
        *,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        tenant: str | None = None,
        count: int | None = None,
    ) -> list[Message]:
        """Fires of this task, with these arguments, of this tenant, were published since the start, run by now or not;
        what is due by now is published first. ``count``: exactly so many, else at least one. Gives their messages.
        """
        with committing(self._using):
            self._publish()
        expected = Expected(task=task, args=args, kwargs=kwargs, tenant=tenant)
        return expected.assert_among(self._broker.published, count=count)

    def deliver_twice(
        self, fire_or_task: Any, *, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> None:
        """Deliver a message to one worker, and copies of it to another: while the first runs, and when it has. Fails
        where a copy runs, too. For a fire; a job, which runs now; or a task, which runs once with these arguments.
        """
        with committing(self._using):
            message = self._message_of(fire_or_task, args, kwargs or {})
            with self._worker.meanwhile(message) as copies:
                self._deliver(message)
            copies.append(self._worker.deliver(message))
        if any(copy.has_run for copy in copies):
            raise AssertionError(
                f"a second copy of the message ran, too: {message}; the ledger prevents that for tasks made with @job"
            )

    @contextmanager
    def crash_at(self, point: Point | str, *, hit: int = 1) -> Iterator[None]:
        """Within it the node, or the worker, that gets to this point (see ``scheduling.failpoints``) dies there; once,
        at the ``hit``-th time. What it leaves behind is found when leases run out: move the clock on.

        Fails where nobody got there. Raises InvalidField for a point that is not reached in tests.
        """
        with dying_at(point, hit=hit) as death:
            yield
        if not death.has_come:
            raise AssertionError(f"nobody died at {point}: it was reached {death.reached} times")

    def assert_idempotent(
        self,
        task_or_job: Any,
        *,
        rows: Rows,
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        ignore: Iterable[str] = (),
        before: Callable[[], object] | None = None,
    ) -> None:
        """Run it once; then again and again, each time from the same state: with its message delivered twice, and with
        a worker that dies at each step of the ledger. Fails where a run leaves other rows behind than the first one.

        ``rows`` are a model or several, a queryset, or a function that gives what to compare. Keys that the database
        made, times of writing, and the fields in ``ignore`` are left out. ``before`` is called before each run, to
        empty what is not in the database. All is rolled back at the end, and the clock stands where it stood.
        """
        job = task_or_job if isinstance(task_or_job, Job) else None
        compare_runs(
            lambda: Harness(start=self.now, using=self._using),
            lambda: job or self._job_of(task_or_job, args, kwargs or {}),
            using=self._using,
            rows=rows,
            ignore=frozenset(ignore),
            before=before,
        )

    # -- messages -----------------------------------------------------------------------------------------------

    def start(self, job: Job, *, request: str | None = None) -> UUID:
        """Run the job once, beside its schedule: a manual fire, due now. Gives the fire's id."""
        (started,) = run_now([job], by="scheduling.testing", request=request, using=self._using)
        return started.fire_id

    def _message_of(self, fire_or_task: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> Message:
        """Of its fire; out of the queue, where it waits there."""
        fire_id = self._fire_id_of(fire_or_task, args, kwargs)
        self._publish()
        if (message := self._broker.take(fire_id) or self._broker.last(fire_id)) is None:
            fire = self.fire(fire_id)
            raise AssertionError(f"fire {fire} was not published: it is {fire.state} {fire.reason}".rstrip())
        return message

    def _fire_id_of(self, fire_or_task: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> UUID:
        match fire_or_task:
            case UUID():
                return fire_or_task
            case Fire():
                return fire_or_task.pk
            case Started() | Message() | Run():
                return fire_or_task.fire_id
            case Job():
                return self.start(fire_or_task)
            case _:
                return self.start(self._job_of(fire_or_task, args, kwargs))

    def _job_of(self, task: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> Job:
        """A job of this task, whose own time does not come."""
        jobs = Job.objects.db_manager(self._using)
        return jobs.once(task_name(task), self.now + FAR, args=list(args), kwargs=kwargs)
