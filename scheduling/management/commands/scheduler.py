"""``manage.py scheduler``: run a node until SIGTERM or Ctrl-C, then drain."""

from __future__ import annotations

import logging
import os
import signal
import socket
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from scheduling.conf import scheduling_settings
from scheduling.core.errors import FairbeatError


class Command(BaseCommand):
    help = "Run a scheduler node. SIGTERM drains it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--node-id", default=f"{socket.gethostname()}-{os.getpid()}", help="unique in the fleet")
        parser.add_argument("--region", default="", help="home of this node")

    def handle(self, *args: Any, node_id: str, region: str, verbosity: int, **options: Any) -> None:
        logging.basicConfig(
            level=logging.DEBUG if verbosity > 1 else logging.INFO,
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        )
        configured = scheduling_settings(settings)
        node = import_string(configured.NODE)(configured, node=node_id, region=region)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: node.stop())
        try:
            node.run()
        except FairbeatError as problem:
            raise CommandError(str(problem)) from problem
