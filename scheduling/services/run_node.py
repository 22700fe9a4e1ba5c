"""A node as the settings have it, and what stands beside one: for ``manage.py scheduler``, and for Celery's beat."""

from __future__ import annotations

import logging
import os
import socket
from threading import Thread
from typing import Protocol

from django.db import Error as DatabaseError
from django.db import connection
from django.utils.module_loading import import_string

from scheduling.conf import Fairness, SchedulingSettings, Stop
from scheduling.failpoints import arm_from_environment
from scheduling.models import Hold
from scheduling.node.health import Health, HealthServer
from scheduling.services.replan_zones import replan_if_changed

logger = logging.getLogger(__name__)


class Runnable(Protocol):
    @property
    def health(self) -> Health: ...

    def run(self) -> None:
        """Work until ``stop``, then drain. Raises FairbeatError."""

    def stop(self) -> None:
        """Safe in a signal handler, and from any thread."""


def default_node_id() -> str:
    """Unique in the fleet, as long as its hosts have names of their own."""
    return f"{socket.gethostname()}-{os.getpid()}"


def build_node(configured: SchedulingSettings, *, node_id: str, region: str = "") -> Runnable:
    """What ``NODE`` builds of these settings, not yet running. Raises FairbeatError."""
    arm_from_environment()
    node: Runnable = import_string(configured.NODE)(configured, node=node_id, region=region)
    return node


def run_beside(configured: SchedulingSettings, node: Runnable) -> None:
    """Start what goes on beside a node: it says how it is, forgets holds where it holds nobody, and plans anew where
    tzdata has changed.

    The last may take a minute for a million jobs, and the others must not wait. Raises FairbeatError.
    """
    if configured.HEALTH:
        HealthServer(configured.HEALTH, node.health).start()
    Thread(target=_put_right, args=[configured], name="put right", daemon=True).start()


def _put_right(configured: SchedulingSettings) -> None:
    try:
        forget_holds(configured)
        replan_if_changed()
    except DatabaseError as problem:
        logger.error(
            "what an earlier node or tzdata has left was not put right; the next start tries again: %s", problem
        )
    finally:
        connection.close()


def forget_holds(configured: SchedulingSettings) -> None:
    """Where nodes claim all that is due, no tenant is held any more. What stayed of a time when some were would, once
    they are again, excuse occurrences that nothing has held.

    Raises django.db.Error.
    """
    if configured.fairness is Fairness.OFF or configured.STOP is Stop.TWO:
        Hold.objects.all().delete()
