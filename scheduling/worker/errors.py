"""What a task's own code may meet."""

from __future__ import annotations

from scheduling.core.errors import FairbeatError


class NoCurrentJob(FairbeatError, LookupError):
    """The code does not run on behalf of a fire: it was called directly, or sent by ``delay()``."""


class CommitRefused(FairbeatError):
    """``commit()`` was used where it could not make the task's writes and the completion one transaction."""


class RejectedByTask(FairbeatError):
    """The task raised Celery's ``Reject``, and its attempts are used up. The ledger decides what becomes of a fire."""
