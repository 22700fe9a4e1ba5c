"""The services of a chaos run: its own, on free loopback ports and a private socket, begun anew and ended with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from project.environment.postgres import Cluster
from project.environment.rabbitmq import Broker
from tests.chaos.etcd import Etcd
from tests.own_redis import OwnRedis


@dataclass(frozen=True, slots=True)
class Services:
    postgres: Cluster
    rabbitmq: Broker
    etcd: Etcd
    redis: OwnRedis


@contextmanager
def started(run_dir: Path) -> Iterator[Services]:
    """All of them answer. Raises ServerFailed where one cannot be had."""
    with ExitStack() as stack:
        postgres, rabbitmq, etcd = Cluster(run_dir, fresh=True), Broker(run_dir), Etcd(run_dir)
        redis = OwnRedis(run_dir / "redis")
        for service in (postgres, rabbitmq, etcd, redis):
            stack.callback(service.close)
            service.start()
        yield Services(postgres, rabbitmq, etcd, redis)
