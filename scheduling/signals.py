"""What became of fires, for a user's own code: Django signals, each sent when what it tells has been committed.

=================  ===========================================  =====================================================
signal             sent by                                      besides the common facts
=================  ===========================================  =====================================================
``job_fired``      the node, when the broker has the message    ``attempt``: how many were begun before
``job_succeeded``  the worker                                   ``attempt``, ``result`` (None after ``ctx.commit()``)
``job_failed``     who ended the attempt, when another follows  ``attempt``, ``error`` (one line), ``reason``
``job_dead``       who let the fire die                         ``attempt``, ``error``, ``reason``: a ``DeathReason``
=================  ===========================================  =====================================================

The sender is the model ``Job``; the facts are keyword arguments: ``fire_id``, ``job_id``, ``tenant`` (its slug),
``name`` and ``task`` of the job, ``scheduled_for``, ``origin``. A receiver runs in the process that did it (a node, a
worker, the admin), so connect it in ``AppConfig.ready()``. An exception of a receiver is logged, and changes nothing.

Does not do: tell twice, or survive the process: one that dies between the commit and the signal has told nobody. What
must happen belongs into the task, or reads the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.dispatch import Signal

from scheduling.core.fire import Fire

job_fired = Signal()
job_succeeded = Signal()
job_failed = Signal()
job_dead = Signal()


def tell(signal: Signal, facts: Callable[[], Mapping[str, Any]]) -> None:
    """Send it. ``facts`` is called only where somebody listens."""
    from scheduling.models import Job  # this module is imported before Django is set up

    if signal.has_listeners(Job):
        signal.send_robust(sender=Job, **facts())  # which logs what a receiver raises


def facts_of(fire: Fire) -> dict[str, Any]:
    """The common facts, and ``attempt``."""
    return {
        "fire_id": fire.id,
        "job_id": fire.work.job_id,
        "tenant": fire.work.tenant,
        "name": fire.work.name,
        "task": fire.work.task,
        "scheduled_for": fire.scheduled_for,
        "origin": fire.origin,
        "attempt": fire.attempt,
    }
