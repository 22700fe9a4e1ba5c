"""What a running task may know of its fire, and ``commit()``: its writes and the completion in one transaction.

::

    open ──commit() entered──▶ committing ──COMMIT──▶ committed: the attempt has succeeded, whatever comes after
     ▲                             │
     └────────rolled back──────────┘                  an exception, or the lease was lost

In doubt, when the reply to the COMMIT is lost, the fire's row is read on a new connection, waiting for that
transaction to end: it says which of the two it was. If that cannot be read either, it stays committing, and the end of
the attempt finds out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Any, TypeVar, overload
from uuid import UUID

from django.db import InterfaceError, OperationalError, connections, transaction

from scheduling.core.errors import LeaseLost
from scheduling.core.identity import idempotency_key
from scheduling.failpoints import Point, failpoint
from scheduling.store.ledger_port import Acquired, Ledger
from scheduling.worker.errors import CommitRefused, NoCurrentJob
from scheduling.worker.fired import Fired

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
    _progress: Progress = Progress.OPEN
    _is_lost: bool = False
    wanted_retry: Exception | None = None  # what the task's retry() was asked for and did not raise

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
    def is_committed(self) -> bool:
        return self._progress is Progress.COMMITTED

    def mark_lost(self) -> None:
        self._is_lost = True

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
        except (OperationalError, InterfaceError):
            # While nobody can tell what was written it is not open again: the writes of a second one would stand beside
            # those of the first.
            if not (is_ending and self._ledger.is_completed(self.fired.delivery)):
                self._progress = Progress.OPEN
                raise
        except BaseException:
            self._progress = Progress.OPEN
            raise
        self._progress = Progress.COMMITTED
        failpoint(Point.COMPLETE_COMMITTED)

    def _refuse_commit(self, using: str) -> None:
        if self._progress is not Progress.OPEN:
            raise CommitRefused(
                f"fire {self.fire_id}: commit() was used before; it completes the fire, which it can do once"
            )
        if using != self.database:
            raise CommitRefused(
                f"using {using!r}: commit() can only join writes to the ledger's own database, {self.database!r}"
            )
        if _is_in_transaction(using):
            raise CommitRefused(
                f"fire {self.fire_id}: commit() was used inside another transaction, and the completion would not be "
                "its last statement; leave the outer atomic() block first"
            )
        if self._is_lost:
            raise LeaseLost(f"fire {self.fire_id}: the lease was lost; another worker may run it")


def _is_in_transaction(using: str) -> bool:
    """A test case's own transaction does not count, as for Django's durable blocks."""
    blocks: list[Any] = connections[using].atomic_blocks
    return bool(blocks) and not blocks[-1]._from_testcase


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
