"""Leases in etcd: a key for each node and for each shard that it owns, alive as long as the node's lease.

::

    fairbeat/nodes/<node>  = {"weight": …, "region": …}     made by join
    fairbeat/shards/<n>    = <node>                          made by the renewal that finds it wanted and free

etcd deletes them all when the lease runs out, and tells those who watch; so a take-over waits for no poll. A shard is
in ``mine`` only once this node has its key, and a key is never taken from a lease that lives; so a hand-over has no gap
in which two nodes act. All members compute the same assignment by rendezvous hashing.

etcd's lease is ``lease_s`` rounded up to whole seconds, and begins when etcd hears of the renewal; the node judges its
own by ``lease_s`` and from before the call. So the node is always the first to stop. Then it renews no more until it
hears etcd: renewals that only etcd hears would keep its shards from everybody.

A shard whose key is gone though it was not released (etcd was restored from a backup, say) may have had another owner
meanwhile. It is ``leaving`` once, and taken anew by the next renewal.

A node that reaches etcd and not the database would keep its shards and fire nothing. When the database has not answered
it for longer than a lease, it lets the one in etcd run out, and others have its shards.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from math import ceil, inf

from scheduling.coordination.etcd_client import EtcdClient, decoded
from scheduling.coordination.etcd_gateway import EtcdAddress, EtcdGateway, Json
from scheduling.coordination.etcd_watch import EtcdWatch
from scheduling.coordination.node_row import NodeRow
from scheduling.coordination.port import Assignment
from scheduling.core.sharding import assign
from scheduling.store.connection import Connect
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)
PATIENCE = 4  # a member of the cluster has this part of a lease to answer: there is time left to ask another
JOIN_TIMEOUT_S = 5.0  # nothing is at stake yet, and a disk may be slow


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is in etcd: weight and lease of each node, and the lease by which each shard's key lives."""

    weights: dict[str, float]
    leases: dict[str, str]
    owners: dict[int, str]


class EtcdCoordinator:
    """One thread uses it. ``weight`` is the node's capacity relative to the others; without ``groups`` each shard is
    assigned by itself. ``prefix`` begins all keys: nodes of another database need another one.
    """

    def __init__(
        self,
        address: EtcdAddress,
        connect: Connect,
        *,
        prefix: str,
        node: str,
        region: str,
        shards: int,
        lease_s: float,
        groups: int | None = None,
        weight: float = 1.0,
    ) -> None:
        self._address, self._prefix, self._node = address, prefix, node
        self._shards, self._groups, self._lease_s = shards, groups, lease_s
        self._me = json.dumps({"weight": weight, "region": region})
        self._row = NodeRow(connect, node=node, region=region, weight=weight, lease_s=lease_s)
        self._row_written_at = -inf
        self._etcd = self._client(lease_s / PATIENCE)
        self._watch: EtcdWatch | None = None
        self._lease = ""
        self._lease_until = 0.0
        self._held: frozenset[int] = frozenset()

    def join(self) -> None:
        """A node of the same id that died, or has lived on, loses its lease and with it its shards."""
        self._row.join()
        self._row_written_at = time.monotonic()
        with closing(self._client(JOIN_TIMEOUT_S)) as etcd:
            for former in etcd.read(self._node_key(self._node)):
                if former.lease and former.key == self._node_key(self._node):
                    etcd.revoke(former.lease)
            self._lease_until = time.monotonic() + self._lease_s
            self._lease = etcd.grant(ceil(self._lease_s))
            etcd.put(self._node_key(self._node), self._me, self._lease)

    def renew(self) -> Assignment:
        self._reach_database()
        before = time.monotonic()
        self._keep_lease(before)
        seen = self._seen_with_us()
        wanted = self._wanted(seen)
        held = frozenset(shard for shard, lease in seen.owners.items() if lease == self._lease)
        lost = self._held - held
        self._held = held | self._taken(wanted - seen.owners.keys() - lost)
        self._lease_until = before + self._lease_s
        return Assignment(self._lease_until, self._held & wanted, (held - wanted) | lost)

    def watch(self, on_change: Callable[[], None]) -> None:
        etcd = self._client(self._lease_s / PATIENCE)
        self._watch = EtcdWatch(etcd, f"{self._prefix}/", is_news=self._is_news, on_change=on_change)
        self._watch.start()

    def release(self, shards: Collection[int]) -> None:
        self._held -= frozenset(shards)
        self._etcd.delete([self._shard_key(shard) for shard in sorted(shards)], self._lease)
        self._write_row(lambda: self._row.release(shards))

    def leave(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        try:
            if self._lease:
                self._etcd.revoke(self._lease)
                self._lease = ""
        finally:
            self._write_row(self._row.leave)
            self._etcd.close()

    # -- etcd ---------------------------------------------------------------------------------------------------

    def _client(self, timeout_s: float) -> EtcdClient:
        return EtcdClient(EtcdGateway(self._address, timeout_s=timeout_s))

    def _keep_lease(self, now: float) -> None:
        """The lease, or a new one where it is gone; the node itself gives up what it held by a lease that ran out."""
        if now >= self._lease_until:
            self._held = frozenset()
            self._seen()  # it raises if etcd is not heard, which may hear us all the same
        if not (self._lease and self._etcd.keep_alive(self._lease)):
            self._lease = self._etcd.grant(ceil(self._lease_s))

    def _wanted(self, seen: _Seen) -> frozenset[int]:
        if seen.leases.get(self._node) != self._lease:
            logger.error("another process has joined as node %s: this one gets no shards", self._node)
            return frozenset()
        return assign(self._shards, seen.weights, groups=self._groups)[self._node]

    def _seen_with_us(self) -> _Seen:
        """This node among them, unless another process has joined under its name."""
        seen = self._seen()
        if self._node in seen.leases:
            return seen
        self._etcd.create({self._node_key(self._node): self._me}, self._lease)
        return self._seen()

    def _seen(self) -> _Seen:
        seen = _Seen({}, {}, {})
        nodes_at, shards_at = self._node_key(""), f"{self._prefix}/shards/"
        for found in self._etcd.read(f"{self._prefix}/"):
            try:
                if found.key.startswith(nodes_at):
                    node = found.key.removeprefix(nodes_at)
                    seen.weights[node] = float(json.loads(found.value)["weight"])
                    seen.leases[node] = found.lease
                elif found.key.startswith(shards_at):
                    seen.owners[int(found.key.removeprefix(shards_at))] = found.lease
            except (ValueError, TypeError, KeyError) as problem:
                raise StoreUnavailable(f"etcd's key {found.key} was written by no node: {found.value!r}") from problem
        return seen

    def _taken(self, shards: Collection[int]) -> frozenset[int]:
        """Those whose keys this node could make: nobody else has been faster."""
        keys = {self._shard_key(shard): shard for shard in sorted(shards)}
        made = self._etcd.create(dict.fromkeys(keys, self._node), self._lease)
        return frozenset(keys[key] for key in made)

    def _is_news(self, event: Json) -> bool:
        """Another node has come or gone, or has given a shard up."""
        key = decoded(event["kv"]["key"])
        if key.startswith(self._node_key("")):
            return key != self._node_key(self._node)
        owner = decoded(event.get("prev_kv", {}).get("value", ""))
        return event.get("type") == "DELETE" and owner != self._node

    def _node_key(self, node: str) -> str:
        return f"{self._prefix}/nodes/{node}"

    def _shard_key(self, shard: int) -> str:
        return f"{self._prefix}/shards/{shard}"

    # -- the database -------------------------------------------------------------------------------------------

    def _reach_database(self) -> None:
        self._write_row(self._row.renew)
        if time.monotonic() - self._row_written_at > self._lease_s:
            raise StoreUnavailable("the database has not answered this node for a lease: others shall have its shards")

    def _write_row(self, write: Callable[[], None]) -> None:
        """Where that fails, the lease in etcd goes on for the time being."""
        try:
            write()
        except StoreUnavailable as problem:
            logger.warning("the row of node %s was not written: %s", self._node, problem)
        else:
            self._row_written_at = time.monotonic()
