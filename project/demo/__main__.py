"""`python -m project.demo`: resolve the services and the database, then play. An error is one sentence, and 2."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import django

from project.demo import database, queues
from project.demo.options import Options, read_options
from project.environment import Services, services
from project.environment.services import DEFAULT_RUN_DIR
from scheduling.core.errors import FairbeatError


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, 1 where something was lost or doubled, 2 for an error, 130 after Ctrl-C."""
    try:
        options = read_options(arguments, os.environ)
        configured = bool(os.environ.get("DATABASE_URL"))
        with services() as found:
            return _play(options, found, configured=configured)
    except FairbeatError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _play(options: Options, found: Services, *, configured: bool) -> int:
    """``configured``: the database is somebody's choice, and not the demo's own."""
    url = found.database_url if configured else database.own_database(found.database_url)
    empty_first = configured and database.is_to_be_emptied(url)
    os.environ.update(found.environ())
    prefix = queues.prefix_for(url)
    os.environ.update(
        DATABASE_URL=url,
        FAIRBEAT_STOP="4" if os.environ.get("FAIRBEAT_STOP") == "4" else "3",  # those with several nodes
        FAIRBEAT_QUEUE_PREFIX=prefix,
        CELERY_DEFAULT_QUEUE=queues.default_queue(prefix),
    )
    django.setup()
    from project.demo.run import play  # its models need what was just set

    run_dir = Path(os.environ.get("FAIRBEAT_RUN_DIR") or DEFAULT_RUN_DIR).resolve()
    return play(options, os.environ, run_dir=run_dir, empty_first=empty_first)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
