"""`make bench`: every benchmark of the catalogue, one after the other on the same services, each a process of its own.

    make bench                          all of them, an hour or two
    QUICK=1 make bench                  what the last line needs, within a minute
    make bench ONLY=fire_path,redbeat   these

Each ends with a line of JSON, which is kept with hardware, versions and the command. The last line is the summary;
everything else goes to stderr. Services are those of the environment, else the ones that answer on this machine, else
embedded ones. What cannot be measured is null, with the reason; without a figure of our own the status is 1.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import kept, machine
from benchmarks.catalogue import BENCHMARKS, CAPACITY, Benchmark
from benchmarks.harness import STOP
from benchmarks.kept import Record
from benchmarks.summary import summary
from project.environment import Needs, services
from project.environment.probe import postgres as probe_postgres
from project.environment.probe import redis_ as probe_redis
from scheduling.core.errors import FairbeatError

LOCAL_POSTGRES = ("postgresql://127.0.0.1:5432/postgres", "postgresql://postgres@127.0.0.1:5432/postgres")
LOCAL_REDIS = "redis://127.0.0.1:6379/0"
PEERS_PYTHON = Path(".venv-bench/bin/python")
RUN_DIR = Path(".run/bench")
QUICK_ENDS_S = 54.0  # after the start; what is left out by then is said to be
INTERRUPTED_S = 30.0  # a benchmark that was interrupted removes what it made


def main() -> int:
    began = time.monotonic()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    try:
        chosen = _chosen(os.environ.get("ONLY", ""), quick=quick)
        with services(_environ(), run_dir=RUN_DIR, needs=Needs(fresh_database=True, rabbitmq=True)) as found:
            environ = found.environ()
            on = _measured_on(environ)
            records = Suite(environ, on, quick=quick, began=began).run(chosen)
    except (FairbeatError, ValueError) as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(json.dumps(summary(records, on, quick=quick)))
    asked = any(benchmark.name == CAPACITY for benchmark in chosen)
    return 1 if asked and records[CAPACITY].figures is None else 0


def _chosen(only: str, *, quick: bool) -> list[Benchmark]:
    """Those of ``ONLY``, else all that the run has room for. Raises ValueError for a name that is none."""
    names = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    if only:
        if unknown := [name for name in only.split(",") if name not in names]:
            raise ValueError(f"ONLY {unknown[0]!r}: no such benchmark; there are {', '.join(names)}")
        return [names[name] for name in only.split(",")]
    return [benchmark for benchmark in BENCHMARKS if not quick or benchmark.quick is not None]


def _environ() -> dict[str, str]:
    """The environment, with the Postgres and the Redis of this machine where none is configured."""
    environ = dict(os.environ)
    if not environ.get("DATABASE_URL"):
        environ["DATABASE_URL"] = _first_that_answers(LOCAL_POSTGRES, probe_postgres)
    if not environ.get("REDIS_URL"):
        environ["REDIS_URL"] = _first_that_answers([LOCAL_REDIS], probe_redis)
    return environ


def _first_that_answers(urls: Iterable[str], probe: Callable[[str, str], None]) -> str:
    for url in urls:
        try:
            probe("this machine's", url)
        except FairbeatError:
            continue
        return url
    return ""


def _measured_on(environ: Mapping[str, str]) -> dict[str, Any]:
    """Raises ValueError where a figure would be worth nothing."""
    if not environ["AMQP_URL"]:
        raise ValueError(f"make bench needs a RabbitMQ: {environ['RABBITMQ_MISSING']}")
    mode = machine.commit_mode(environ["DATABASE_URL"])
    if off := [name for name in ("fsync", "synchronous_commit") if mode[name] not in ("on", "remote_apply")]:
        raise ValueError(f"Postgres has {off[0]} {mode[off[0]]!r}: a fire that is recorded would not be durable")
    urls = {"database_url": environ["DATABASE_URL"], "amqp": environ["AMQP_URL"], "redis_url": environ["REDIS_URL"]}
    return {
        "hardware": machine.hardware(),
        "versions": machine.versions(**urls),
        "commit_mode": mode,
        "revision": machine.revision(),
        "measured_at": machine.measured_at(),
    }


class Suite:
    """Runs benchmarks, and keeps their records. A quick one ends in time, whatever is left to do."""

    def __init__(self, environ: Mapping[str, str], on: dict[str, Any], *, quick: bool, began: float) -> None:
        self._environ = os.environ | environ | {"FAIRBEAT_STOP": STOP}
        self._environ.pop("DJANGO_SETTINGS_MODULE", None)  # the project has set it, and peers have none, or their own
        self._on, self._quick = on, quick
        self._ends_at = began + QUICK_ENDS_S if quick else float("inf")
        self._folder = kept.QUICK if quick else kept.FULL

    def run(self, benchmarks: Sequence[Benchmark]) -> dict[str, Record]:
        """By name."""
        records: dict[str, Record] = {}
        for benchmark in benchmarks:
            record = replace(
                self._run(benchmark, self._capacity(records)),
                ours=records[CAPACITY].figure() if CAPACITY in records else None,
            )
            kept.write(record, self._folder)
            records[benchmark.name] = record
            _say(f"  {record.took_s:5.1f} s  {_in_short(record)}")
        return records

    def _capacity(self, records: Mapping[str, Record]) -> float | None:
        known = records if CAPACITY in records else kept.read(self._folder)
        return known[CAPACITY].figure() if CAPACITY in known else None

    def _run(self, benchmark: Benchmark, capacity: float | None) -> Record:
        try:
            arguments = benchmark.arguments(quick=self._quick and benchmark.quick is not None, capacity=capacity)
        except ValueError as problem:
            return Record(benchmark.name, "", None, str(problem), on=self._on)
        python = str(PEERS_PYTHON) if benchmark.peer else sys.executable
        shown = (
            f"{PEERS_PYTHON if benchmark.peer else '.venv/bin/python'} -m {benchmark.module} {shlex.join(arguments)}"
        )
        _say(f"{benchmark.name}: {shown}")
        began = time.monotonic()
        output, reason = self._output(benchmark, [python, "-m", benchmark.module, *arguments])
        figures = None if reason else _last_line(output)
        if figures is None:
            reason = reason or "its last line is no JSON"
        return Record(benchmark.name, shown.strip(), figures, reason, round(time.monotonic() - began, 1), on=self._on)

    def _output(self, benchmark: Benchmark, command: Sequence[str]) -> tuple[str, str]:
        """What it said, and why that is no result."""
        limit_s = min(benchmark.limit_s, self._ends_at - time.monotonic())
        if limit_s <= 0:
            return "", "no time was left in the quick run"
        log = RUN_DIR / f"{benchmark.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as errors:
            try:
                # a session of its own: a limit ends what it started, too
                process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=errors, text=True, env=self._environ, start_new_session=True
                )
            except OSError as problem:
                return "", f"{command[0]} cannot be run: {problem.strerror}"
            try:
                output, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                return "", f"it took longer than {limit_s:.3g} s"
            finally:
                _end(process)
        if process.returncode != 0:
            return "", f"status {process.returncode}: {_last_words(log)}"
        return output, ""


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt what still runs, so that it removes its database and queues; then make an end."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(INTERRUPTED_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(output: str) -> dict[str, Any] | None:
    lines = output.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"{lines[-1]} (see {log})" if lines else f"it said nothing (see {log})"


def _in_short(record: Record) -> str:
    if record.figures is None:
        return f"not measured: {record.reason}"
    rates = {name: record.figure(name) for name in record.figures if name.endswith("_per_s")}
    return ", ".join(f"{name} {rate:,}" for name, rate in rates.items() if rate is not None)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
