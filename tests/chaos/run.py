"""Plays a chaos run, once its services run and Django is set up: load, faults, settle, judge."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from project.demo.models import Effect
from project.environment.process import ServerFailed
from scheduling.models import JobClock
from tests.chaos import report, runlog
from tests.chaos.evidence import count_unsettled, read_evidence
from tests.chaos.fleet import Fleet, fleet
from tests.chaos.judge import judge
from tests.chaos.load import make_load
from tests.chaos.monitor import LATE_S, Look, Monitor
from tests.chaos.order import injections
from tests.chaos.scenarios import carry_out, scenarios
from tests.chaos.services import Services
from tests.chaos.stage import LONGEST_S, Act, Stage

READY_S = 60.0
LOADING_S = 5.0  # to make the jobs, on a busy machine
SETTLE_S = 60.0  # without any progress
SHOWN = 20  # findings


def play(
    services: Services, *, seconds: float, seed: int, only: Sequence[str], run_dir: Path, table_in: Path | None
) -> int:
    """The exit status: 1 where an occurrence was lost, an effect doubled, a fire held twice, or a limit not kept.

    Raises ServerFailed.
    """
    log = run_dir / "runs.log"
    log.write_text("")
    call_command("migrate", verbosity=0, interactive=False)
    with ExitStack() as stack:
        family = stack.enter_context(fleet(run_dir / "fleet", services, os.environ | {runlog.VARIABLE: str(log)}))
        monitor = stack.enter_context(closing(Monitor(services.postgres.url)))
        end_at = _begin(family, monitor, seconds=seconds)
        until = time.monotonic() + (end_at - JobClock.objects.now()).total_seconds()
        connection.close()  # faults would break it
        stage = Stage(services, family, monitor, end_at)
        acts = _inject(stage, until=until, seed=seed, only=only)
        _settle(stage)
    verdict = judge(read_evidence(log, stage.deeds))
    connection.close()
    kinds = {"lost": verdict.lost, "doubled": verdict.doubled, "unheld": verdict.unheld, "over": verdict.over}
    for kind, findings in kinds.items():
        for finding in findings[:SHOWN]:
            _say(f"{kind}: {finding.text}")
        if len(findings) > SHOWN:
            _say(f"{kind}: {len(findings) - SHOWN} more")
    text = f"{report.headline(acts, verdict, seed=seed)}\n\n{report.table(acts, verdict)}"
    if table_in is not None:
        report.write_table(table_in, text)
    _say(text)
    _say(f"ended of themselves, and started again: {', '.join(family.restarts) or 'none'}")
    _say(json.dumps(report.summary(acts, verdict, seed=seed)))
    return 0 if verdict.is_clean else 1


def _begin(family: Fleet, monitor: Monitor, *, seconds: float) -> datetime:
    """Start everybody, and the load once the shards are owned; returns when the load ends, once it runs."""
    for host in (*family.nodes, *family.workers):
        host.start()
    _wait(monitor, lambda look: look.is_owned_by(family.living()), "not all shards are owned")
    start_at = JobClock.objects.now() + timedelta(seconds=LOADING_S)
    make_load(start_at=start_at, end_at=start_at + timedelta(seconds=seconds))
    if JobClock.objects.now() > start_at:
        raise ServerFailed(f"the jobs were not made within {LOADING_S:g} s: the machine is too busy")
    _wait(monitor, lambda look: look.late_s < LATE_S and Effect.objects.exists(), "nothing has run")
    return start_at + timedelta(seconds=seconds)


def _wait(monitor: Monitor, is_so: Callable[[Look], bool], problem: str) -> None:
    if monitor.wait(is_so, until=time.monotonic() + READY_S, meanwhile=lambda: None) is None:
        raise ServerFailed(f"{problem} after {READY_S:g} s; the logs are in the run's folder")


def _inject(stage: Stage, *, until: float, seed: int, only: Sequence[str]) -> list[Act]:
    """One fault after the other, for as long as the next one has its time."""
    acts: list[Act] = []
    chosen = {number: variants for number, variants in scenarios().items() if not only or number in only}
    for injection in injections(chosen, seed=seed):
        if time.monotonic() + LONGEST_S > until:
            return acts
        acts.append(carry_out(stage, injection))
        _say(report.describe(acts[-1]))
    return acts


def _settle(stage: Stage) -> None:
    """Wait until all that was due has come to its end, or nothing moves any more."""
    left, since = -1, time.monotonic()
    while (now_left := count_unsettled(stage.deeds)) and time.monotonic() - since < SETTLE_S:
        if now_left != left or JobClock.objects.now() < stage.load_ends_at:
            left, since = now_left, time.monotonic()
        stage.fleet.revive()
        time.sleep(0.5)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
