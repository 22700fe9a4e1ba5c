"""System checks: what is wrong with the settings, said at start; and what Celery and the broker would do to runs.

====================  =========  ==================================================================================
id                    when       what
====================  =========  ==================================================================================
``scheduling.E001``   always     ``SCHEDULING`` is not as it should be
``scheduling.E002``   always     Celery's workers do not accept JSON, which all our messages are
``scheduling.W001``   --deploy   the default limit of a run is longer than the broker leaves a message unacknowledged
``scheduling.W002``   --database jobs' limits are
``scheduling.W003``   --deploy   Celery ends runs when the connection to the broker breaks
``scheduling.W004``   --deploy   limits of tasks that have no effect on jobs
====================  =========  ==================================================================================

Of Celery they look at the app that this process has made; where it has made none, there is nothing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from celery import Celery, current_app
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004

from scheduling.conf import Stop, problems, scheduling_settings
from scheduling.core.definition import JobDefinition

VISIBILITY_S = 3600.0  # of kombu's Redis transport, unless it is told otherwise
MARGIN_S = 600.0  # what a message may wait in a worker before its run begins
TASKS_SHOWN = 5


@register
def check_settings(**_: Any) -> list[CheckMessage]:
    return [Error(problem, id="scheduling.E001") for problem in problems(settings)]


@register
def check_accepted_content(**_: Any) -> list[CheckMessage]:
    return list(_of_content()) if _runs_in_workers() else []


@register(deploy=True)
def check_default_limit(**_: Any) -> list[CheckMessage]:
    limit_s = JobDefinition.hard_timeout_s
    said = f"A job may run for {limit_s:g} s unless it says otherwise"
    return list(_of_limit(limit_s, said, id="scheduling.W001")) if _runs_in_workers() else []


@register(Tags.database)
def check_limits_of_jobs(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Only where databases are asked for: a check must not need one."""
    from django.db import router
    from django.db.models import Max

    from scheduling.models import Job

    using = router.db_for_read(Job)
    if not _runs_in_workers() or using not in (databases or ()) or not _is_migrated(using):
        return []
    jobs = Job.objects.using(using).filter(deleted_at=None, hard_timeout_s__gt=JobDefinition.hard_timeout_s)
    limit_s = jobs.aggregate(longest=Max("hard_timeout_s"))["longest"]
    if limit_s is None:
        return []
    return list(_of_limit(limit_s, f"A job may run for {limit_s:g} s", id="scheduling.W002"))


@register(deploy=True)
def check_connection_loss(**_: Any) -> list[CheckMessage]:
    if not _runs_in_workers() or not _app().conf.worker_cancel_long_running_tasks_on_connection_loss:
        return []
    return [
        Warning(
            "Celery ends every run when a worker's connection to the broker breaks "
            "(worker_cancel_long_running_tasks_on_connection_loss); each is an attempt that is lost.",
            hint="Leave it off: a run goes on without the broker, and a second copy of its message is refused.",
            id="scheduling.W003",
        )
    ]


@register(deploy=True)
def check_limits_of_tasks(**_: Any) -> list[CheckMessage]:
    """Of those that this process has imported."""
    from scheduling.worker.task import JobTask

    if not _runs_in_workers():
        return []
    limited = sorted(
        name for name, task in _app().tasks.items() if isinstance(task, JobTask) and task.time_limit is not None
    )
    if not limited:
        return []
    shown = ", ".join(limited[:TASKS_SHOWN]) + (" and others" if len(limited) > TASKS_SHOWN else "")
    return [
        Warning(
            f"time_limit of {shown}: has no effect on jobs, whose own hard_timeout_s is sent with each run.",
            hint="Set hard_timeout_s where the jobs are made; Celery's counts for delay() and apply_async() alone.",
            id="scheduling.W004",
        )
    ]


def _of_content() -> Iterator[CheckMessage]:
    accepted = _app().conf.accept_content
    if not {"json", "application/json"} & {str(content) for content in accepted}:
        yield Error(
            f"Celery's accept_content {accepted!r}: every message of a job is JSON, and workers would refuse them all.",
            hint="Add 'json'.",
            id="scheduling.E002",
        )


def _of_limit(limit_s: float, said: str, *, id: str) -> Iterator[CheckMessage]:  # noqa: A002  (as Django's)
    conf = _app().conf
    is_redis = str(conf.broker_url).startswith(("redis", "rediss", "valkey", "unix", "sentinel"))
    if is_redis:
        patience_s = float((conf.broker_transport_options or {}).get("visibility_timeout", VISIBILITY_S))
        name, setting = "visibility_timeout", "broker_transport_options['visibility_timeout'] = {s:.0f} in Celery"
    else:
        patience_s = scheduling_settings(settings).CONSUMER_TIMEOUT_S
        name = "consumer_timeout"
        setting = "consumer_timeout = {ms:.0f} in rabbitmq.conf, and SCHEDULING['CONSUMER_TIMEOUT_S'] = {s:.0f}"
    if limit_s <= patience_s:
        return
    enough_s = limit_s + MARGIN_S
    yield Warning(
        f"{said}, and the broker takes a message back that is not acknowledged within {patience_s:g} s ({name}). "
        "The run goes on, and the second copy is refused; but a worker on RabbitMQ loses its channel, with all that it "
        "had fetched.",
        hint=f"Set {setting.format(s=enough_s, ms=enough_s * 1000)}; or give jobs a lower hard_timeout_s.",
        id=id,
    )


def _runs_in_workers() -> bool:
    """Whether there is a Celery app of the project's own, and stop 1 does not do without workers."""
    if any(problems(settings)) or _app().main in (None, "default"):
        return False
    return scheduling_settings(settings).STOP is not Stop.ONE


def _app() -> Celery[Any]:
    return current_app._get_current_object()  # type: ignore[attr-defined]


def _is_migrated(using: str) -> bool:
    from django.db import connections

    from scheduling.models import Job

    return Job._meta.db_table in connections[using].introspection.table_names()
