"""The exchange of all nodes over Redis: one script for all lanes that a node tells of."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any

from fairness.core.exchange import LEASE_S, Charge, Frames, Settled, Told, part_alone
from fairness.core.places import HORIZON, TURN
from fairness.limiting.wire import TIMEOUT_S, Script, Wire

EXCHANGE = Script("exchange.lua")

Batch = tuple[int, Mapping[int, Charge]]


class RedisExchange:
    """An ``Exchange``. The clocks are for tests: of when to try again, and in place of Redis's time.

    After a call without an answer, before the circuit opens, a node keeps what it had in flight and gets nothing more.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        node: str,
        nodes: Callable[[], Collection[str]],
        timeout_s: float = TIMEOUT_S,
        lease_s: float = LEASE_S,
        wall_clock: Callable[[], float] = time.time,
        redis_clock: Callable[[], float] | None = None,
    ) -> None:
        self._wire = Wire(url, timeout_s=timeout_s, clock=wall_clock)
        self._base = f"{{{prefix}}}"
        self._node = node
        self._nodes = nodes
        self._lease_s = lease_s
        self._redis_clock = redis_clock
        self._frames = Frames()
        self._numbers = count(time.time_ns() // 1_000_000)  # on from those of one of the same name
        self._unanswered: dict[str, list[Batch]] = {}

    @property
    def is_degraded(self) -> bool:
        """Redis does not answer, and this node keeps to its part."""
        return self._wire.is_open

    def exchange(self, told: Sequence[Told]) -> list[Settled]:
        if not told:
            return []
        reply = None
        if self._wire.may_call:
            number = next(self._numbers)
            for one in told:
                self._unanswered.setdefault(one.lane, []).append((number, one.charges))
            reply = self._call({"lanes": [self._lane_words(one) for one in told]})
        if self._wire.is_open:
            self._unanswered.clear()  # when it comes back, the tags that it has by then are taken
            nodes = self._nodes()
            return [part_alone(one, node=self._node, nodes=nodes) for one in told]
        if reply is None:
            return [_kept(one) for one in told]
        return [self._settled(one, *answer) for one, answer in zip(told, reply, strict=True)]

    def leave(self) -> None:
        if not self._wire.is_open:
            self._call({"is_leaving": True, "lanes": self._frames.lanes})

    def close(self) -> None:
        self._wire.close()

    def _call(self, words: dict[str, Any]) -> list[Any] | None:
        now = "" if self._redis_clock is None else repr(self._redis_clock())
        told = json.dumps({"node": self._node, "lease_s": self._lease_s, "turn": TURN, "horizon": HORIZON} | words)
        return self._wire.call(EXCHANGE, self._base, now, told)

    def _lane_words(self, told: Told) -> dict[str, Any]:
        """As ``exchange.lua`` reads it."""
        return {
            "lane": told.lane,
            "depth": told.depth,
            "in_flight": told.in_flight,
            "wants": told.wants,
            "rows": [
                (str(r.tenant_id), r.tag - told.virtual_time, r.weight, r.cost, r.waiting, r.in_flight, r.way)
                for r in told.rows
            ],
            "batches": [
                (number, [(str(tenant), charge.amount, int(charge.came)) for tenant, charge in charges.items()])
                for number, charges in self._unanswered[told.lane]
            ],
        }

    def _settled(
        self, told: Told, joined: int, virtual_time: bytes, places: int, in_flight: int, wants: int, tags: bytes
    ) -> Settled:
        self._unanswered.pop(told.lane, None)
        words = tags.split()
        settled = Settled(
            lane=told.lane,
            tags=dict(zip(map(int, words[::2]), map(float, words[1::2]), strict=True)),
            virtual_time=float(virtual_time),
            places=places,
            in_flight=in_flight,
            wants=wants,
        )
        return self._frames.own(told, settled, has_joined=bool(joined))


def _kept(told: Told) -> Settled:
    """There was no answer this time."""
    return Settled(
        lane=told.lane,
        virtual_time=told.virtual_time,
        places=told.in_flight,
        in_flight=told.in_flight,
        wants=told.wants,
    )
