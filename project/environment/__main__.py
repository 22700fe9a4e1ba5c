"""`python -m project.environment run -- COMMAND …`: a command with the services that it needs around it.

The command finds them in its environment. Its exit status is passed on, signals to this process are passed to it, and
the servers that were started stop when it has ended. An error is one sentence on stderr and status 2.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from project.environment import Needs, services
from scheduling.core.errors import FairbeatError

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    """Parse, resolve, run; the exit status."""
    options = _parser().parse_args(arguments)
    environ = os.environ | ({"EMBEDDED": "1"} if options.embedded else {})
    needs = Needs(fresh_database=options.fresh, rabbitmq=options.provision, etcd=options.provision)
    try:
        with services(environ, run_dir=options.run_dir, needs=needs) as found:
            return run(options.command, environ | found.environ())
    except FairbeatError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run `command` to its end, passing signals on; its status, as a shell would tell it.

    It has a session of its own: Ctrl-C in a terminal would else reach it twice, from the terminal and from here.
    """
    try:
        child = subprocess.Popen(command, env=environ, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror}\n")
        return 127

    def forward(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m project.environment", description="services around a command")
    commands = parser.add_subparsers(required=True)
    run_ = commands.add_parser("run", help="run a command with its services")
    run_.add_argument("--embedded", action="store_true", help="take the embedded services, as EMBEDDED=1")
    run_.add_argument("--run-dir", type=Path, default=None, help="where the embedded servers keep their files")
    run_.add_argument("--fresh", action="store_true", help="begin with an empty Postgres in --run-dir")
    run_.add_argument(
        "--provision", action="store_true", help="seek a RabbitMQ and an etcd, in packages and containers"
    )
    run_.add_argument("command", nargs="+", metavar="-- COMMAND")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
