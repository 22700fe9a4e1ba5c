"""The Celery protocol-2 message of a fire: the header names that we add, and the body.

``apply_async`` of Celery 5.7 is the model, field by field (a test holds the two together); everything here is plain
values, so that each publisher can write them in its own way.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from scheduling.core import masking
from scheduling.core.fire import Fire
from scheduling.core.masking import Mask

JOB = "fb_job"  # the job's id
FENCE = "fb_fence"  # fencing token: a worker that presents a lower one is refused
SCHEDULED_FOR = "fb_for"  # nominal time, ISO 8601 in UTC with microseconds
ORIGIN = "fb_origin"  # empty for the schedule's own
TENANT = "fb_tenant"  # the tenant's slug
KEEP = "fb_keep"  # days of history: with SCHEDULED_FOR it names the partition of the fire's row
BEAT = "celery_beat_task"  # as Celery beat's: always true
JOB_NAME = "periodic_task_name"  # as Celery beat's: django-celery-results stores it

EMBED = '{"callbacks": null, "errbacks": null, "chain": null, "chord": null}'
_ENCODER = json.JSONEncoder(allow_nan=False)
REPR_LIMIT = 1024  # characters of argsrepr and kwargsrepr, which only logs and monitors read


def headers(fire: Fire, *, origin: str, ignore_result: bool | None, mask: Mask = masking.DEFAULT) -> dict[str, Any]:
    """Headers in the order in which Celery sends them, ours behind.

    ``origin`` is the sender as Celery names it (``gen<pid>@<host>``); ``ignore_result`` is what the task says, None
    if it is unknown; ``mask`` hides secrets from logs and monitors.
    """
    work, task_id = fire.work, str(fire.id)
    return {
        "lang": "py",
        "task": work.task,
        "id": task_id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [work.hard_timeout_s, work.soft_timeout_s],
        "root_id": task_id,
        "parent_id": None,
        "argsrepr": mask.beginning(work.args, REPR_LIMIT),
        "kwargsrepr": mask.beginning(work.kwargs, REPR_LIMIT),
        "origin": origin,
        "ignore_result": ignore_result,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
        BEAT: True,
        JOB_NAME: work.name,
        JOB: str(work.job_id),
        FENCE: fire.fence,
        SCHEDULED_FOR: instant(fire.scheduled_for),
        ORIGIN: fire.origin,
        TENANT: work.tenant,
        KEEP: work.history_days,
    }


def instant(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds: texts of one length that sort as the instants do.

    >>> instant(datetime(2026, 3, 8, 7, tzinfo=UTC))
    '2026-03-08T07:00:00.000000+00:00'
    """
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")


def body(args: str, kwargs: str) -> bytes:
    """The body of a message from the JSON texts of its arguments."""
    return f"[{args}, {kwargs}, {EMBED}]".encode()


def canonical_json(value: object) -> str:
    """JSON as Celery writes it: default separators, ASCII only; ``nan`` and infinities are refused (they are not
    JSON)."""
    return _ENCODER.encode(value)
