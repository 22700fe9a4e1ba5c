"""``manage.py scheduler``: run a node until SIGTERM or Ctrl-C, then drain."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
from dataclasses import replace
from math import inf
from threading import Thread
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError
from django.db import connection
from django.utils.module_loading import import_string

from scheduling.conf import scheduling_settings
from scheduling.core.errors import FairbeatError
from scheduling.failpoints import arm_from_environment
from scheduling.node.health import HealthServer
from scheduling.services.replan_zones import replan_if_changed

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Run a scheduler node. SIGTERM drains it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--node-id", default=f"{socket.gethostname()}-{os.getpid()}", help="unique in the fleet")
        parser.add_argument("--region", default="", help="home of this node")
        parser.add_argument(
            "--capacity", type=_capacity, help="relative to the other nodes (SCHEDULING['CAPACITY'] if left out)"
        )
        parser.add_argument(
            "--health", metavar="HOST:PORT", help="where it says whether it is live and ready (SCHEDULING['HEALTH'])"
        )

    def handle(self, *args: Any, node_id: str, region: str, verbosity: int, **options: Any) -> None:
        logging.basicConfig(
            level=logging.DEBUG if verbosity > 1 else logging.INFO,
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        )
        given = {name: options[name.lower()] for name in ("CAPACITY", "HEALTH") if options[name.lower()] is not None}
        configured = replace(scheduling_settings(settings), **given)
        try:
            arm_from_environment()
            node = import_string(configured.NODE)(configured, node=node_id, region=region)
            if configured.HEALTH:
                HealthServer(configured.HEALTH, node.health).start()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: node.stop())
            Thread(target=_replan, name="replan zones", daemon=True).start()
            node.run()
        except FairbeatError as problem:
            raise CommandError(str(problem)) from problem


def _capacity(text: str) -> float:
    try:
        capacity = float(text)
    except ValueError:
        capacity = 0.0
    if not 0 < capacity < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return capacity


def _replan() -> None:
    """Beside the node: it may take a minute for a million jobs, and the others must not wait."""
    try:
        replan_if_changed()
    except DatabaseError as problem:
        logger.error("next occurrences were not computed anew for this tzdata; the next start tries again: %s", problem)
    finally:
        connection.close()
