"""What every test may ask for: the services of the run, and our own processes against the test's database.

The services are those of the environment (`make test` sets them; a bare `pytest` takes the defaults of the settings). A
test marked `rabbitmq`, `redis` or `etcd` is skipped by name where there is none; with `REQUIRE_SERVICES=1` it fails
instead.
"""

from __future__ import annotations

import gc
import os
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import connection
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from fairness.models import Tenant
from fairness.queues import QueuePlan
from project.celery import app
from project.demo.queues import default_queue, remove
from project.environment import probe
from project.environment.plan import ETCD_MISSING, LOCAL_RABBITMQ, MISSING
from project.environment.urls import is_amqp
from scheduling.core.errors import FairbeatError, ServiceUnreachable
from tests.processes import Spawned

# How long an example takes says how busy the machine is, and nothing of what is tested.
hypothesis_settings.register_profile("fairbeat", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("fairbeat")

Spawn = Callable[..., Spawned]
SERVICES = ("rabbitmq", "redis", "etcd")
SOUGHT = {"rabbitmq": MISSING, "etcd": ETCD_MISSING}  # variables in which an outer run says why it found none


@cache
def _missing(service: str) -> str:
    """Why the run has no such service; empty where it has."""
    if reason := os.environ.get(SOUGHT.get(service, "")):
        return reason
    try:
        if service == "rabbitmq":
            probe.broker("RabbitMQ", _rabbitmq_url())
        elif service == "etcd":
            probe.etcd("etcd", str(settings.SCHEDULING["ETCD_URLS"]))
        else:
            probe.redis_("Redis", settings.REDIS_URL)
    except FairbeatError as error:
        return str(error)
    return ""


def _rabbitmq_url() -> str:
    return settings.CELERY_BROKER_URL if is_amqp(settings.CELERY_BROKER_URL) else LOCAL_RABBITMQ


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: the garbage collector does not walk it, which is a fifth of the time of tests
    without a database.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """A test that asks for a service, by fixture or by a parameter of that name, is marked for it. Of those that are
    left when others have sorted and deselected them, the long ones come first.
    """
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        for service in SERVICES:
            if f"{service}_url" in getattr(item, "fixturenames", ()) or service in parameters:
                item.add_marker(service)
    yield
    items[:] = _long_ones_first(items, workers=int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _long_ones_first(items: list[pytest.Item], *, workers: int) -> list[pytest.Item]:
    """xdist gives each worker an equal stretch of the list, and who has done his takes from the ends of the others'. So
    a stretch begins with its share of what takes long, and no worker is left with that at the end: every other one's
    with tests of many processes, which take the machine's time also while they wait, and the rest with the other ones.
    """
    kinds: dict[str, list[pytest.Item]] = {"processes": [], "long": [], "": []}
    for item in items:
        kinds[next(kind for kind in kinds if not kind or item.get_closest_marker(kind))].append(item)
    halves = [range(0, workers, 2), range(1, workers, 2) or range(1)]
    first: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for half, long in zip(halves, (kinds["processes"], kinds["long"]), strict=True):
        for place, number in enumerate(half):
            first[number] += long[place :: len(half)]
    rest, dealt = kinds[""], list[pytest.Item]()
    for number, share in enumerate(first):
        size = (len(items) - len(dealt)) // (workers - number)
        others = max(0, size - len(share))
        dealt += share + rest[:others]
        del rest[:others]
    return dealt


def pytest_runtest_setup(item: pytest.Item) -> None:
    for service in SERVICES:
        if item.get_closest_marker(service) and (reason := _missing(service)):
            refuse = pytest.fail if os.environ.get("REQUIRE_SERVICES") == "1" else pytest.skip
            refuse(f"needs {service}: {reason}")


@pytest.fixture(autouse=True)
def _current_app() -> None:
    """A test that makes a Celery app of its own leaves that one as the current app."""
    app.set_current()


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """A database of this run's own: several runs of the suite may share one server."""
    test = settings.DATABASES["default"].setdefault("TEST", {})
    test["NAME"] = connection.settings_dict["TEST"]["NAME"] = f"test_fairbeat_{os.getpid()}"


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """A RabbitMQ that answers. Other runs may use it too: name queues with `unique`."""
    return _rabbitmq_url()


@pytest.fixture(scope="session")
def redis_url() -> str:
    """A Redis that answers. Other runs may use it too: begin keys with `unique`."""
    return str(settings.REDIS_URL)


@pytest.fixture(scope="session")
def etcd_url() -> str:
    """An etcd that answers, or several members by commas. Other runs may use it too: begin keys with `unique`."""
    return str(settings.SCHEDULING["ETCD_URLS"])


@pytest.fixture
def unique() -> str:
    """A short name that no other test or run has, for queues and keys on a shared server."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def process_env(transactional_db: None, unique: str) -> dict[str, str]:
    """An environment in which our processes work on the test's database, with queues of their own (`unique`)."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DATABASE_URL": _test_database_url(),
        "CELERY_DEFAULT_QUEUE": default_queue(unique),
        "FAIRBEAT_QUEUE_PREFIX": unique,
        "FAIRBEAT_ETCD_PREFIX": unique,
    }


def _test_database_url() -> str:
    parts = connection.settings_dict
    login = quote(parts["USER"], safe="") + (f":{quote(parts['PASSWORD'], safe='')}" if parts["PASSWORD"] else "")
    host = quote(parts["HOST"], safe="") + (f":{parts['PORT']}" if parts["PORT"] else "")
    return f"postgresql://{login}{'@' if login else ''}{host}/{quote(parts['NAME'], safe='')}"


@pytest.fixture
def spawn(process_env: dict[str, str], unique: str) -> Iterator[Spawn]:
    """Start `python manage.py …` or `celery …`, against the test's database; ended with the test.

    `spawn("manage.py", "scheduler", ready="node", SPEED="60")`: words in capitals go into its environment, and with
    `ready` it returns once a line with that text was printed. What it printed is shown where the test fails. Their
    queues on a RabbitMQ go with them.
    """
    spawned: list[Spawned] = []
    brokers: set[str] = set()

    def start(program: str, *arguments: str, ready: str | None = None, **environ: str) -> Spawned:
        command = [sys.executable, "-m", program] if program == "celery" else [sys.executable, program]
        if "worker" in arguments and "-n" not in arguments:  # two workers of one name cannot share a broker
            arguments = (*arguments, "-n", f"{unique}-{len(spawned)}@%h")
        environ = process_env | environ
        process = Spawned([*command, *arguments], environ)
        spawned.append(process)
        brokers.add(environ.get("CELERY_BROKER_URL") or environ.get("AMQP_URL") or "")
        if ready is not None:
            process.wait_for_line(ready)
        return process

    yield start
    for process in reversed(spawned):
        process.stop()
    for url in filter(is_amqp, brokers):  # queues left on a shared broker would slow it for all
        with suppress(ServiceUnreachable):  # a test may name a broker that does not exist
            probe.broker("AMQP_URL", url)
            remove(url, QueuePlan(prefix=unique), Tenant.objects.values_list("slug", flat=True))
    for process in spawned:
        sys.stdout.write(f"--- {' '.join(process.command)} (status {process.process.returncode})\n{process.output}\n")
