"""``manage.py scheduler``: run a node until SIGTERM or Ctrl-C, then drain."""

from __future__ import annotations

import argparse
import logging
import signal
from dataclasses import replace
from math import inf
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.conf import scheduling_settings
from scheduling.core.errors import FairbeatError
from scheduling.services.run_node import build_node, default_node_id, run_beside


class Command(BaseCommand):
    help = "Run a scheduler node. SIGTERM drains it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--node-id", default=default_node_id(), help="unique in the fleet")
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
            node = build_node(configured, node_id=node_id, region=region)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: node.stop())
            run_beside(configured, node)
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
