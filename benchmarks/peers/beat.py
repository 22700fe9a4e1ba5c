"""Runs a Celery beat with one of its schedulers, and counts what it sends."""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Any

from benchmarks.peers.arrivals import Arrivals, process

LOG_LEVEL = "WARNING"  # beat's own default: INFO writes a line for each message


def environment(options: argparse.Namespace, queue: str) -> dict[str, str]:
    confirms = {"BENCH_CONFIRMS": "1"} if options.confirms else {}
    return {"AMQP_URL": options.amqp, "CELERY_BROKER_URL": "", "BENCH_QUEUE": queue} | confirms


def fires_per_s(
    options: argparse.Namespace, arrivals: Arrivals, arguments: list[str], environ: dict[str, str]
) -> dict[str, Any]:
    """What its beat sends in a second, by the broker's count."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "celery", "-q", "-A", "benchmarks.peers.beat_app", "beat", "-l", LOG_LEVEL]
        command += ["--pidfile=", *arguments]
        with process(command, environment(options, arrivals.name) | environ, cwd=folder) as beat:
            rate = arrivals.per_second(options.seconds, of=beat)
    return {
        "fires_per_s": round(rate, 1),
        "jobs": options.jobs,
        "due_per_s": options.jobs,
        "seconds": options.seconds,
        "publisher_confirms": options.confirms,
    }
