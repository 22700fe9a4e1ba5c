"""What a running task may know of its fire, and ask for: ``commit()``, its writes and the completion in one
transaction; ``step()``, what is to happen once; ``check()``, whether it is to stop.

::

    open ──commit() entered──▶ committing ──COMMIT──▶ committed: the attempt has succeeded, whatever comes after
     ▲                             │
     └────────rolled back──────────┘                  an exception, or the lease was lost

In doubt, when the reply to the COMMIT is lost, or an ``on_commit()`` function of the task or a soft timeout raises
behind it, the fire's row is read, waiting for that transaction to end: it says which of the two it was. If it cannot be
read, it stays committing, and the end of the attempt finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Any, TypeVar, overload
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction

from scheduling.core.errors import LeaseLost
from scheduling.core.identity import idempotency_key
from scheduling.failpoints import Point, failpoint
from scheduling.store.ledger_port import Acquired, Ledger
from scheduling.worker.errors import Cancel, CommitRefused, NoCurrentJob, StepRefused
from scheduling.worker.fired import Fired
from scheduling.worker.steps import Steps, Undone
from scheduling.worker.transactions import is_in_transaction

T = TypeVar("T")


class Progress(Enum):
    OPEN = auto()
    COMMITTING = auto()
    COMMITTED = auto()


@dataclass(slots=True, eq=False)
class JobContext:
    """The fire that the current code runs for. Times are aware UTC."""

    fired: Fired = field(repr=False)
    acquired: Acquired = field(repr=False)
    worker: str
    database: str  # alias of the ledger's database
    _ledger: Ledger = field(repr=False)
    task: str = ""  # its name
    patience_s: float = 30.0  # with a database that does not answer; a lease
    on_committed: Callable[[], None] = field(default=lambda: None, repr=False)
    wanted_retry: Exception | None = None  # what the task's retry() was asked for and did not raise
    _progress: Progress = Progress.OPEN
    _is_lost: bool = False
    _cancel_reason: str = ""
    _steps: Steps = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._steps = Steps(self._ledger, self.acquired, database=self.database, patience_s=self.patience_s)

    @property
    def fire_id(self) -> UUID:
        return self.fired.delivery.fire_id

    @property
    def job_id(self) -> UUID:
        return self.fired.delivery.job_id

    @property
    def scheduled_for(self) -> datetime:
        """The nominal time: when the schedule meant it to be, however late it runs."""
        return self.fired.delivery.scheduled_for

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this fire, and for no other: hand it to services that you call."""
        return idempotency_key(self.job_id, self.scheduled_for, self.fired.origin)

    @property
    def fence(self) -> int:
        """Grows with every attempt: a service that keeps the highest it saw can refuse a stale worker."""
        return self.fired.delivery.fence

    @property
    def attempt(self) -> int:
        """1 at first."""
        return self.acquired.attempt

    @property
    def tenant(self) -> str:
        """The tenant's slug."""
        return self.fired.tenant

    @property
    def name(self) -> str:
        """The job's name; may be empty."""
        return self.fired.name

    @property
    def lost(self) -> bool:
        """Whether the lease is known to be lost: another worker may run this fire. A long task had better stop."""
        return self._is_lost

    @property
    def cancelled(self) -> bool:
        """Whether it was asked to stop: by a person, or because a newer fire of its job is due."""
        return bool(self._cancel_reason)

    @property
    def cancel_reason(self) -> str:
        """Why it is to stop; empty where nobody asked."""
        return self._cancel_reason

    @property
    def is_committed(self) -> bool:
        return self._progress is Progress.COMMITTED

    def mark_lost(self) -> None:
        self._is_lost = True

    def mark_cancelled(self, reason: str) -> None:
        self._cancel_reason = reason

    def check(self) -> None:
        """For a long task, now and then: costs nothing, and asks nobody (the heartbeat does).

        Raises Cancel where it was asked to stop, LeaseLost where another worker may have this fire by now. After
        ``commit()`` it raises neither: what is done is done.
        """
        if self.is_committed:
            return
        if self._cancel_reason:
            raise Cancel(self._cancel_reason)
        if self._is_lost:
            raise self._lost()

    def step(
        self,
        name: str,
        function: Callable[[], Any],
        /,
        *,
        in_doubt: Callable[[], Any] | None = None,
        undone: Undone = (),
    ) -> Any:
        """Call ``function`` at most once for this fire and this name, whatever becomes of its attempts; its result.

        The result is JSON, of 64 KB at most; a later attempt is given it back, and calls nothing. An exception of a
        type in ``undone`` says that nothing has happened: the step may be done again. After any other exception, or a
        death, it is in doubt: a later attempt calls ``in_doubt`` in its place (find out what happened, or do it again
        under the idempotency key), or raises StepInDoubt where there is none.

        Raises StepRefused inside a transaction and after ``commit()``, LeaseLost, InvalidField for a result that is not
        JSON, and what the function raises.
        """
        if self._progress is not Progress.OPEN:
            raise StepRefused(f"step {name!r} of fire {self.fire_id} was used after commit(), which ends the fire")
        return self._steps.run(name, function, in_doubt=in_doubt, undone=undone)

    @contextmanager
    def commit(self, *, using: str | None = None) -> Iterator[None]:
        """A transaction that ends with this fire's completion: all that is written in it happens exactly once.

        ``using`` is the alias of the database that the task writes to; it must be the ledger's own.

        Raises LeaseLost (and rolls back) where another worker has the fire by now, CommitRefused where it is used
        twice, inside another transaction, or for another database.
        """
        self._refuse_commit(using or self.database)
        self._progress = Progress.COMMITTING
        is_ending = False
        try:
            with transaction.atomic(using=self.database, durable=True):
                yield
                failpoint(Point.COMPLETE_BEFORE)
                is_ending = True
                self._ledger.complete(self.acquired, worker=self.worker, result="")
        except BaseException as error:
            # While nobody can tell what was written it is not open again: the writes of a second one would stand beside
            # those of the first.
            is_written = is_ending and isinstance(error, Exception) and self._ledger.is_completed(self.fired.delivery)
            if not is_written:
                self._progress = Progress.OPEN
                raise
            if not isinstance(error, OperationalError | InterfaceError):  # behind the COMMIT: it is no news of that
                self._committed()
                raise
        self._committed()

    def _committed(self) -> None:
        self._progress = Progress.COMMITTED
        failpoint(Point.COMPLETE_COMMITTED)
        self.on_committed()

    def _refuse_commit(self, using: str) -> None:
        if self._progress is not Progress.OPEN:
            raise CommitRefused(
                f"fire {self.fire_id}: commit() was used before; it completes the fire, which it can do once"
            )
        if using != self.database:
            raise CommitRefused(
                f"using {using!r}: commit() can only join writes to the ledger's own database, {self.database!r}"
            )
        if is_in_transaction(using):
            raise CommitRefused(
                f"fire {self.fire_id}: commit() was used inside another transaction, and the completion would not be "
                "its last statement; leave the outer atomic() block first"
            )
        if self._is_lost:
            raise self._lost()

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"fire {self.fire_id}: the lease was lost; another worker may run it")


_current: ContextVar[JobContext] = ContextVar("fairbeat_current_job")
_RAISE = object()


@overload
def current_job() -> JobContext: ...
@overload
def current_job(default: T) -> JobContext | T: ...
def current_job(default: object = _RAISE) -> object:
    """The fire that the current code runs for; ``default``, where given, when it runs for none.

    Raises NoCurrentJob where there is neither: the task was called directly, or sent by ``delay()``.
    """
    context = _current.get(None)
    if context is not None:
        return context
    if default is _RAISE:
        raise NoCurrentJob(
            "this code does not run on behalf of a job (it was called directly, or by delay()); "
            "current_job(None) gives None then"
        )
    return default


def make_current(context: JobContext) -> Token[JobContext]:
    """Make ``context`` the current one of this thread, until ``restore``."""
    return _current.set(context)


def restore(token: Token[JobContext]) -> None:
    """Make that the current one which was so before."""
    _current.reset(token)
