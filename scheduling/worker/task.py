"""``JobTask``: a Celery task that runs a fire under the ledger.

Without a fire's headers (someone called ``delay()``, or the function) it is an ordinary Celery task: no ledger, and
``current_job()`` raises. With them the ledger decides whether it runs, how often it is tried and when; Celery neither
retries nor requeues. What RabbitMQ (``consumer_timeout``) or Redis (``visibility_timeout``) delivers again because a
long run has not acknowledged it is refused: the fire is running.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.contrib.django.task import DjangoTask
from celery.exceptions import Retry

from scheduling.core.errors import InvalidField
from scheduling.worker.attempt import acquire
from scheduling.worker.context import current_job
from scheduling.worker.fired import fired
from scheduling.worker.process import worker_process

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
    acks_late = True
    acks_on_failure = True
    acks_on_timeout = True
    acks_on_failure_or_timeout = True
    reject_on_worker_lost = False
    retry_on_worker_lost = False

    @classmethod
    def on_bound(cls, app: Any) -> None:  # noqa: ARG003  (Celery's signature)
        """Raises InvalidField for an option that would lose fires or bring them back."""
        refuse_unsafe({name: getattr(cls, name) for name in FIXED})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request: Any = self.request_stack.top
        if request is None or request.called_directly or request._protected:
            return super().__call__(*args, **kwargs)
        request._protected = 1  # a task that calls itself, as a function, does not acquire again
        fire = fired(request.id, request.headers)
        if fire is None:
            return self.run(*args, **kwargs)
        hard_timeout_s = request.time_limit or self.time_limit or HARD_TIMEOUT_S
        attempt = acquire(worker_process(), fire, worker=request.hostname or "", hard_timeout_s=hard_timeout_s)
        request.retries = attempt.context.attempt - 1
        return attempt.run(lambda: self.run(*args, **kwargs), hard_timeout_s=hard_timeout_s)

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

        ``countdown`` (job seconds) or ``eta`` say when, else the job's backoff does. How often is the job's
        ``max_attempts``; ``max_retries`` and further options are not looked at. Raises InvalidField for other
        arguments: a fire is always tried with those of its job.
        """
        context = current_job(None)
        if context is None or str(context.fire_id) != self.request.id:
            return super().retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)
        for name, value in (("args", args), ("kwargs", kwargs)):
            if value is not None:
                raise InvalidField(name, value, "a fire is tried again with the arguments of its job; leave this out")
        when: Any = eta if eta is not None else countdown
        again = Retry(exc=exc, when=when)
        if throw:
            raise again
        context.wanted_retry = again
        return again


def refuse_unsafe(options: Mapping[str, Any]) -> None:
    """Raises InvalidField for a Celery option that contradicts the ledger."""
    for name, value in FIXED.items():
        if options.get(name, value) != value:
            raise InvalidField(
                name, options[name], f"is always {value} for a job's task; the ledger decides what happens to a message"
            )
