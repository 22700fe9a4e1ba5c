"""Nodes that share their shards by keys of their own in a real etcd, each through a proxy of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from django.db import connection

from scheduling.coordination.etcd import EtcdCoordinator
from scheduling.coordination.etcd_client import EtcdClient
from scheduling.coordination.etcd_gateway import EtcdAddress, EtcdGateway
from scheduling.coordination.port import Assignment, Coordinator
from scheduling.models import Shard
from scheduling.store.connection import connector
from scheduling.store.port import StoreUnavailable
from tests.processes import eventually
from tests.proxy import Address, Proxy

SHARDS = 16
LEASE_S = 100.0


class EtcdWorld:
    """``database`` is a way to the database through a proxy, where a test means to cut it."""

    def __init__(self, url: str, prefix: str, *, shards: int = SHARDS, database: Proxy | None = None) -> None:
        self.urls, self.prefix, self.shards, self.database = url.split(","), prefix, shards, database
        self.etcd = client(url)
        self.proxies: dict[str, list[Proxy]] = {}
        self.made: list[EtcdCoordinator] = []

    def node(
        self, name: str, *, weight: float = 1.0, groups: int | None = None, lease_s: float = LEASE_S
    ) -> EtcdCoordinator:
        proxies = self.proxies.setdefault(name, [Proxy(_place(url)) for url in self.urls])
        address = EtcdAddress(urls=tuple(proxy.through(url) for proxy, url in zip(proxies, self.urls, strict=True)))
        made = EtcdCoordinator(
            address,
            connector(database_params(self.database), name=name),
            prefix=self.prefix,
            node=name,
            region="here",
            shards=self.shards,
            groups=groups,
            lease_s=lease_s,
            weight=weight,
        )
        self.made.append(made)
        return made

    def joined(self, name: str, *, lease_s: float = LEASE_S) -> EtcdCoordinator:
        node = self.node(name, lease_s=lease_s)
        node.join()
        return node

    def own(self, name: str, shards: frozenset[int]) -> None:
        """The keys are there; the rows are written by the store."""
        Shard.objects.filter(id__in=shards).update(owner=name)

    def owned(self, name: str) -> frozenset[int]:
        return frozenset(int(key.rpartition("/")[2]) for key, owner in self.keys("shards").items() if owner == name)

    def keys(self, kind: str) -> Mapping[str, str]:
        """What is in etcd below ``nodes`` or ``shards``."""
        return {found.key: found.value for found in self.etcd.read(f"{self.prefix}/{kind}/")}

    def lease(self, name: str) -> str:
        """The lease of a node; empty where it has none."""
        return next((found.lease for found in self.etcd.read(f"{self.prefix}/nodes/{name}")), "")

    def freeze(self, name: str) -> None:
        """As if the time had passed: etcd ends the lease."""
        self.etcd.revoke(self.lease(name))

    def cut(self, name: str) -> None:
        for proxy in self.proxies[name]:
            proxy.cut()

    def monotonic(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        proxies = [proxy for of_node in self.proxies.values() for proxy in of_node]
        for proxy in proxies:
            proxy.accept_again()
            proxy.release()
        for made in self.made:
            with suppress(StoreUnavailable):  # a test may have ended etcd, or the database
                made.leave()
        for proxy in proxies:
            proxy.close()
        self.etcd.close()


def renewed(node: Coordinator) -> Assignment | None:
    """None: it cannot reach its coordinator, or the database."""
    try:
        return node.renew()
    except StoreUnavailable:
        return None


def renewed_at_last(node: Coordinator) -> Assignment:
    """Once its coordinator answers again."""
    assignment = eventually(lambda: renewed(node))
    assert assignment is not None
    return assignment


def client(url: str, *, timeout_s: float = 5.0) -> EtcdClient:
    return EtcdClient(EtcdGateway(EtcdAddress(urls=tuple(url.split(","))), timeout_s=timeout_s))


def database_params(proxy: Proxy | None) -> dict[str, object]:
    """How to connect to the test's database, through the proxy where there is one."""
    params = connection.get_connection_params()
    return params if proxy is None else params | {"host": "127.0.0.1", "port": proxy.port}


def database_place() -> Address:
    """Where the server of the test's database listens."""
    params = connection.get_connection_params()
    host, port = str(params.get("host") or "127.0.0.1"), int(params.get("port") or 5432)
    return Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else (host, port)


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 2379
