"""The plan carried out: what is missing has been started while the context is open, and the URLs of all are known."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from project.environment import etcd, lock, postgres, process, rabbitmq, valkey
from project.environment.plan import ETCD_MISSING, MISSING, Plan, Probes, plan
from project.environment.urls import is_amqp
from scheduling.core.errors import ServiceUnreachable

DEFAULT_RUN_DIR = ".run"
NONE_ON_LOCALHOST = "no RabbitMQ answers on localhost"
NOT_CONFIGURED = "ETCD_URL names none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one run, all of them answering.

    `rabbitmq_missing` says why there is no RabbitMQ among them; empty where there is one. So does `etcd_missing`.
    """

    database_url: str
    redis_url: str
    broker_url: str
    etcd_url: str = ""
    rabbitmq_missing: str = ""
    etcd_missing: str = ""

    def environ(self) -> dict[str, str]:
        """What to add to the environment of the processes that use these services.

        A process that resolves its services again with these arrives at the same ones. `CELERY_BROKER_URL` is empty
        where another variable says it: Celery lets it overrule even an app that is given another broker.
        """
        told = self.broker_url == self.redis_url or is_amqp(self.broker_url)
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "AMQP_URL": self.broker_url if is_amqp(self.broker_url) else "",
            "CELERY_BROKER_URL": "" if told else self.broker_url,
            "ETCD_URL": self.etcd_url,
            MISSING: self.rabbitmq_missing,
            ETCD_MISSING: self.etcd_missing,
            "EMBEDDED": "",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a run of tests wants beyond the ordinary.

    `fresh_database`: an embedded Postgres begins empty. `rabbitmq`: before Redis is taken for a broker, a RabbitMQ is
    sought in a container and in Debian's package. `etcd`: so is an etcd where none is configured.
    """

    fresh_database: bool = False
    rabbitmq: bool = False
    etcd: bool = False


@contextmanager
def services(
    environ: Mapping[str, str] | None = None, *, run_dir: Path | None = None, needs: Needs = Needs()
) -> Iterator[Services]:
    """Resolve the services from `environ` (by default this process's) and start what is missing.

    `run_dir` holds the embedded servers' files: by default `FAIRBEAT_RUN_DIR`, else `.run` in the current folder.

    While it is open, SIGTERM and SIGHUP raise SystemExit, unless the caller handles them, so that servers are stopped.

    Raises `ServiceUnreachable`, `InvalidField`, `RunDirInUse` or `ServerFailed`, each one sentence for a person.
    """
    environ = os.environ if environ is None else environ
    run_dir = run_dir or Path(environ.get("FAIRBEAT_RUN_DIR") or DEFAULT_RUN_DIR)
    decided = plan(environ, probes=Probes())
    is_etcd_used = environ.get("FAIRBEAT_COORDINATOR") == "etcd"
    needs = replace(needs, etcd=needs.etcd or is_etcd_used)
    starts_etcd = needs.etcd and not (decided.etcd_url or decided.no_etcd)
    with _termination_raises(), ExitStack() as stack:
        if None in (decided.database_url, decided.redis_url, decided.broker_url) or starts_etcd:
            stack.enter_context(lock.held(run_dir))
        found = _started(decided, stack, run_dir=run_dir.resolve(), needs=needs)
        if is_etcd_used and found.etcd_missing:
            raise ServiceUnreachable(f"FAIRBEAT_COORDINATOR=etcd needs an etcd: {found.etcd_missing}")
        yield found


def _started(decided: Plan, stack: ExitStack, *, run_dir: Path, needs: Needs) -> Services:
    database_url = decided.database_url or stack.enter_context(postgres.running(run_dir, fresh=needs.fresh_database))
    redis_url = decided.redis_url or stack.enter_context(valkey.running(run_dir))
    broker_url, missing = decided.broker_url, decided.no_rabbitmq
    if broker_url is None and not missing:
        broker_url, missing = (
            process.first_of(rabbitmq.WAYS, stack, run_dir) if needs.rabbitmq else (None, NONE_ON_LOCALHOST)
        )
    elif broker_url is not None and not is_amqp(broker_url):
        missing = "the configured broker is not a RabbitMQ"
    etcd_url, no_etcd = decided.etcd_url, decided.no_etcd
    if etcd_url is None and not no_etcd:
        etcd_url, no_etcd = process.first_of(etcd.WAYS, stack, run_dir) if needs.etcd else (None, NOT_CONFIGURED)
    return Services(
        database_url=database_url,
        redis_url=redis_url,
        broker_url=broker_url or redis_url,
        etcd_url=etcd_url or "",
        rabbitmq_missing=missing,
        etcd_missing=no_etcd,
    )


@contextmanager
def _termination_raises() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    unhandled = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]
    for number in unhandled:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
