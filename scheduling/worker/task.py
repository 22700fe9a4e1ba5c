"""``JobTask``: a Celery task that runs a fire under the ledger.

Without a fire's headers (someone called ``delay()``, or the function) it is an ordinary Celery task: no ledger, and
``current_job()`` raises; ``Retry``, ``Snooze`` and ``Cancel`` then become what Celery has for them. With a fire the
ledger decides whether it runs, how often it is tried and when; Celery neither retries nor requeues. What RabbitMQ
(``consumer_timeout``) or Redis (``visibility_timeout``) delivers again because a long run has not acknowledged it is
refused: the fire is running.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from celery.contrib.django.task import DjangoTask
from celery.exceptions import Ignore, Reject

from scheduling.core.errors import InvalidField
from scheduling.worker.attempt import Stopped, acquire
from scheduling.worker.context import current_job
from scheduling.worker.errors import Cancel, Retry, Snooze
from scheduling.worker.fired import Fired, fired
from scheduling.worker.outcome import AskedRetry, cause_of, delay_until
from scheduling.worker.policy import policy_of, refuse_unclear
from scheduling.worker.process import worker_process
from scheduling.worker.queues import refuse_foreign_queue
from scheduling.worker.refusals import count_refusal
from scheduling.worker.registration import note_task

HARD_TIMEOUT_S = 3600.0  # for a message without a limit, as a job's default

# A message must stay with the broker until the ledger has it, and never come back by Celery's doing.
FIXED = {
    "acks_late": True,
    "acks_on_failure": True,
    "acks_on_timeout": True,
    "acks_on_failure_or_timeout": True,
    "reject_on_worker_lost": False,
    "retry_on_worker_lost": False,
}


class JobTask(DjangoTask):
    """Use it as ``@job``, or as ``@shared_task(base=JobTask)``."""

    abstract = True
    Request = "scheduling.worker.request:JobRequest"
    acks_late = True
    acks_on_failure = True
    acks_on_timeout = True
    acks_on_failure_or_timeout = True
    reject_on_worker_lost = False
    retry_on_worker_lost = False
    retry_on: Any = ()
    give_up_on: Any = ()

    @classmethod
    def on_bound(cls, app: Any) -> None:  # noqa: ARG003  (Celery's signature)
        """Raises InvalidField for an option that would lose fires or bring them back, or that is not clear."""
        refuse_unsafe({name: getattr(cls, name) for name in FIXED})
        refuse_unclear({"retry_on": cls.retry_on, "give_up_on": cls.give_up_on})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request: Any = self.request_stack.top
        if request is None or request.called_directly or request._protected:
            return super().__call__(*args, **kwargs)
        request._protected = 1  # a task that calls itself, as a function, does not acquire again
        fire = _fire_of(request)
        if fire is None:
            return self._run_for_nobody(request, lambda: self.run(*args, **kwargs))
        hard_timeout_s = request.time_limit or self.time_limit or HARD_TIMEOUT_S
        attempt = acquire(
            worker_process(),
            fire,
            task=self.name,
            policy=policy_of(self),
            worker=request.hostname or "",
            hard_timeout_s=hard_timeout_s,
        )
        note_task(self)
        request.retries = attempt.context.acquired.counted - 1
        try:
            return attempt.run(lambda: self.run(*args, **kwargs), hard_timeout_s=hard_timeout_s)
        except Stopped as stopped:
            self._store_revoked(request, str(stopped))
            raise

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: Any = None,
        throw: bool = True,
        eta: Any = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Any:
        """Celery's ``retry``; on behalf of a fire nothing is published, and the ledger brings it back.

        ``countdown`` (job seconds) or ``eta`` say when, else the job's backoff does. It is tried as often as the job's
        ``max_attempts`` says, and no more often than ``max_retries``, where that is given here or to the task; further
        options are not looked at. Raises InvalidField for other arguments (a fire always has those of its job), and for
        a time that is none, or over a year away.
        """
        context = current_job(None)
        if context is None or str(context.fire_id) != self.request.id:
            return super().retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)
        for name, value in (("args", args), ("kwargs", kwargs)):
            if value is not None:
                raise InvalidField(name, value, "a fire is tried again with the arguments of its job; leave this out")
        field, when = ("countdown", countdown) if eta is None else ("eta", eta)
        delay: Any = None if when is None else delay_until(field, when)  # a timedelta, where Celery's own have seconds
        again = AskedRetry(exc=exc, when=delay)
        again.max_retries = max_retries
        if throw:
            raise again
        context.wanted_retry = again
        return again

    def _run_for_nobody(self, request: Any, run: Callable[[], Any]) -> Any:
        """A call by ``delay()``: Celery brings it back. It counts a snooze as a retry."""
        try:
            return run()
        except Retry as again:
            countdown = None if again.in_ is None else again.in_.total_seconds()
            raise super().retry(exc=cause_of(again), countdown=countdown) from again
        except Snooze as snooze:
            countdown = snooze.delay.total_seconds()
            raise super().retry(countdown=countdown, max_retries=request.retries + 1) from snooze
        except Cancel as cancel:
            self._store_revoked(request, cancel.reason)
            raise Ignore(cancel.reason) from cancel

    def _store_revoked(self, request: Any, reason: str) -> None:
        """For who waits for the result: it was stopped, which is no failure."""
        said = vars(request).get("ignore_result")
        is_wanted = not (self.ignore_result if said is None else said) or self.store_errors_even_if_ignored
        self.backend.mark_as_revoked(request.id, reason, request=request, store_result=is_wanted)


def refuse_unsafe(options: Mapping[str, Any]) -> None:
    """Raises InvalidField for a Celery option that contradicts the ledger."""
    for name, value in FIXED.items():
        if options.get(name, value) != value:
            raise InvalidField(
                name, options[name], f"is always {value} for a job's task; the ledger decides what happens to a message"
            )


def _fire_of(request: Any) -> Fired | None:
    """The fire that the message names; None where it names none.

    Raises Reject, for the broker's dead letters, where it cannot be read or came through another tenant's queue.
    """
    try:
        found = fired(request.id, request.headers, pid=os.getpid())
        if found is not None:
            refuse_foreign_queue(found.tenant, request.delivery_info or {})
    except InvalidField as refused:
        count_refusal("forged" if refused.field == "queue" else "unreadable")
        raise Reject(str(refused), requeue=False) from refused
    return found
