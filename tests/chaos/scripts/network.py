"""What happens on the way between a process and a service: it is cut, goes one way, or loses replies."""

from __future__ import annotations

from tests.chaos.registry import scenario
from tests.chaos.stage import Act
from tests.proxy import Way


@scenario("3", "cut off")
def _cut_off_from_coordinator(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    for proxy in host.etcd:
        proxy.cut(refuse=True)
    act.lasts(act.rng.uniform(3.0, 5.0))
    act.network_heals(host)


@scenario("13", "does not hear etcd", "is not heard by etcd", "does not hear Postgres", "is not heard by Postgres")
def _one_way(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    way = Way.BACK if "hear " in act.injection.variant else Way.FORTH
    for proxy in host.etcd if act.injection.variant.endswith("etcd") else [host.postgres]:
        proxy.hold(way)
    act.lasts(act.rng.uniform(3.0, 5.0))
    act.network_heals(host)


@scenario("5", "replies lost")
def _replies_lost(act: Act) -> None:
    """Of commits one in ten, of other statements (each its own transaction) one in a hundred."""
    hosts = [*act.fleet.nodes, *act.fleet.workers]
    for host in hosts:
        host.postgres.lose_replies(lambda said: act.rng.random() < (0.1 if b"COMMIT" in said else 0.01))
    act.lasts(4.0)
    act.network_heals(*hosts)
