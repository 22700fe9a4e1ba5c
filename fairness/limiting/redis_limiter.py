"""Rates and caps that all nodes have in common, over Redis: one script for a batch, by Redis's own time.

This node remembers who is in flight of its own. So whoever is in already is admitted again without asking; and when
Redis has lost its state, or this node comes back to it after the circuit was open, they are held there first.
While the circuit is open, a ``LocalLimiter`` keeps to this node's part of each limit; its buckets begin empty, since
nobody knows what is left of the burst.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairness.core.admission import CAP, RATE, Refusal, Request
from fairness.core.leases import Wanted, most_of
from fairness.core.limits import LEASE_S, REBUILD_S, LocalLimiter
from fairness.core.terms import Bound, BoundKey
from fairness.limiting.wire import TIMEOUT_S, Script, Wire

logger = logging.getLogger(__name__)

ADMIT, HOLD, LEASE, LEAVE = (Script("limits.lua", f"{name}.lua") for name in ("admit", "hold", "lease", "leave"))
PIECE = 500  # requests in one call: about ten milliseconds of Redis, a fifth of the time-out
UNPROVEN_S = TIMEOUT_S  # after which to ask again when there was no answer

Words = list[Any]


@dataclass(slots=True)
class _Stay:
    request: Request
    ends_at: float
    has_spent: bool


class RedisLimiter:
    """A ``Limiter``. The clocks are for tests: of leases here, of when to try again, and in place of Redis's time."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        node: str,
        nodes: Callable[[], Collection[str]],
        timeout_s: float = TIMEOUT_S,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        redis_clock: Callable[[], float] | None = None,
    ) -> None:
        self._wire = Wire(url, timeout_s=timeout_s, clock=wall_clock)
        self._base = f"{{{prefix}}}"
        self._node = node
        self._nodes = nodes
        self._lease_s = lease_s
        self._clock = clock
        self._redis_clock = redis_clock
        self._stays: OrderedDict[str, _Stay] = OrderedDict()  # all leases are as long, so the next to end is first
        self._gone: dict[str, Request] = {}  # have left, and Redis was not told
        self._epoch: bytes | None = None
        self._is_rebuilt = False  # it was told what was in flight when this node began
        self._part: LocalLimiter | None = None  # while the circuit is open

    @property
    def is_degraded(self) -> bool:
        """Redis does not answer, and this node keeps to its part."""
        return self._part is not None

    def admit(self, requests: Sequence[Request]) -> list[Refusal | None]:
        now = self._clock()
        self._drop_ended(now)
        if self._gone:
            self._tell_of_leaving([])
        answers: list[Refusal | None] = [None] * len(requests)
        places = []
        for place, request in enumerate(requests):
            if request.member in self._stays or not any(bound.bounds_anything for _, bound in request.bounds):
                continue
            if self._is_rebuilt or not _is_capped(request):
                places.append(place)
            else:
                answers[place] = _first_refusal(request, REBUILD_S)
        for piece in _pieces(places):
            asked = [requests[place] for place in piece]
            for place, refusal in zip(piece, self._admit(asked), strict=True):
                answers[place] = refusal
                if refusal is None:
                    self._enter(requests[place], now, has_spent=True)
        return answers

    def lease(self, wanted: Sequence[Wanted]) -> list[int]:
        """None while the circuit is open: a part of a limit begins empty, and is asked for fire by fire."""
        if not self._is_reachable():
            return [0] * len(wanted)
        nodes = len({*self._nodes(), self._node})
        granted: list[int] = []
        for piece in _pieces([*wanted]):
            words = [_rate_words(one.key, one.bound, most_of(one.bound, nodes) - one.in_hand) for one in piece]
            reply = self._call(LEASE, {"wanted": words})
            granted += [0] * len(piece) if reply is None else reply[1:]
        return granted

    def leave(self, requests: Sequence[Request], *, unspent: bool = False) -> None:
        stays = [stay for request in requests if (stay := self._stays.pop(request.member, None)) is not None]
        if self._part is not None:
            self._part.leave([stay.request for stay in stays], unspent=unspent)
        self._gone.update((stay.request.member, stay.request) for stay in stays)
        given_back = [stay.request for stay in stays if stay.has_spent] if unspent else []
        if self._gone or given_back:
            self._tell_of_leaving(given_back)

    def hold(self, requests: Sequence[Request]) -> None:
        now = self._clock()
        self._drop_ended(now)
        for request in requests:
            self._enter(request, now, has_spent=False)
        self._is_rebuilt = True
        if self._part is not None:
            self._part.hold(requests)
        if self._is_reachable():
            self._hold(requests)

    def close(self) -> None:
        self._wire.close()

    # -- asking -------------------------------------------------------------------------------------------------

    def _admit(self, requests: Sequence[Request]) -> list[Refusal | None]:
        """Of one piece, none of whom is in."""
        if not self._is_reachable():
            return self._admit_by_part(requests)
        bounds: dict[BoundKey, int] = {}
        told: list[Words] = []
        words: list[Words] = []
        for request in requests:
            line: Words = [request.member]
            for key, bound in request.bounds:
                if (place := bounds.get(key)) is None:
                    place = bounds[key] = len(told) + 1
                    told.append(_bound_words(key, bound))
                line.append(place)
            words.append(line)
        nodes = sorted({*self._nodes(), self._node})
        reply = self._call(
            ADMIT, {"node": self._node, "nodes": nodes, "lease_s": self._lease_s, "bounds": told, "requests": words}
        )
        if reply is None:
            return self._admit_by_part(requests)
        answers: list[Refusal | None] = [None] * len(requests)
        for i in range(1, len(reply), 4):
            place, bound_place, why, wait_us = reply[i : i + 4]
            key = requests[place].bounds[bound_place][0]
            answers[place] = Refusal(CAP if why == 1 else RATE, key, None if wait_us < 0 else wait_us / 1e6)
        return answers

    def _admit_by_part(self, requests: Sequence[Request]) -> list[Refusal | None]:
        """There was no answer: by this node's part once the circuit is open. Before that, nothing that cannot be proven
        to be within its limits is let through.
        """
        if self._part is not None:
            return self._part.admit(requests)
        return [_first_refusal(request, UNPROVEN_S) for request in requests]

    def _tell_of_leaving(self, given_back: Sequence[Request]) -> None:
        if not self._is_reachable():
            return
        caps = _by_cap(self._gone.values())
        unspent = [_rate_words(key, bound, tokens) for key, (bound, tokens) in _tokens_of(given_back).items()]
        if not (caps or unspent) or self._call(LEAVE, {"caps": caps, "unspent": unspent}) is not None:
            self._gone.clear()

    def _hold(self, requests: Iterable[Request], spent: Sequence[Words] = ()) -> bool:
        """Of all that are in flight. Whether Redis was told."""
        pieces = [*_pieces([*requests])] or [[]]
        for n, piece in enumerate(pieces):
            is_first, is_last = n == 0, n == len(pieces) - 1
            told = {
                "node": self._node,
                "lease_s": self._lease_s,
                "caps": _by_cap(piece),
                "spent": [*spent] if is_first else [],
                "is_all": is_last and self._is_rebuilt,
            }
            if self._call(HOLD, told) is None:
                return False
        return True

    def _call(self, script: Script, told: dict[str, Any]) -> list[Any] | None:
        now = "" if self._redis_clock is None else repr(self._redis_clock())
        reply = self._wire.call(script, self._base, now, json.dumps(told))
        if reply is None:
            if self._wire.is_open and self._part is None:
                self._begin_part()
            return None
        epoch, self._epoch = self._epoch, reply[0]
        if epoch not in (None, reply[0]):
            logger.warning("Redis has lost its state: buckets count as empty, and caps are built anew")
            self._hold([stay.request for stay in self._stays.values()])
        return reply

    # -- without Redis ------------------------------------------------------------------------------------------

    def _is_reachable(self) -> bool:
        """The circuit is closed; or Redis answers again, and was told what has happened here meanwhile."""
        if self._part is None:
            return True
        if not self._wire.may_call:
            return False
        spent = [_rate_words(key, bound, *tokens) for key, bound, *tokens in self._part.spent()]
        if not self._hold([stay.request for stay in self._stays.values()], spent):
            return False
        self._part = None
        return True

    def _begin_part(self) -> None:
        part = LocalLimiter(node=self._node, nodes=self._nodes, clock=self._clock, lease_s=self._lease_s)
        if self._is_rebuilt:
            part.hold([stay.request for stay in self._stays.values()])
        self._part = part

    # -- who is in ----------------------------------------------------------------------------------------------

    def _enter(self, request: Request, now: float, *, has_spent: bool) -> None:
        stay = self._stays.get(request.member)
        if stay is None:
            stay = self._stays[request.member] = _Stay(request, 0.0, has_spent)
        stay.request = request
        stay.ends_at = now + self._lease_s
        self._stays.move_to_end(request.member)
        self._gone.pop(request.member, None)

    def _drop_ended(self, now: float) -> None:
        while self._stays and next(iter(self._stays.values())).ends_at <= now:
            self._stays.popitem(last=False)


def _pieces(all_: list[Any]) -> Iterator[list[Any]]:
    return (all_[first : first + PIECE] for first in range(0, len(all_), PIECE))


def _name(key: BoundKey) -> str:
    tenant_id, lane, task = key
    return f"{tenant_id}:{lane}:{task}"


def _bound_words(key: BoundKey, bound: Bound) -> Words:
    """As ``admit.lua`` reads it."""
    cap = -1 if bound.max_in_flight is None else bound.max_in_flight
    return [_name(key), cap, 0 if bound.rate_per_s is None else 1 / bound.rate_per_s, bound.burst]


def _rate_words(key: BoundKey, bound: Bound, *tokens: float) -> Words:
    """As ``hold.lua``, ``lease.lua`` and ``leave.lua`` read it."""
    assert bound.rate_per_s is not None  # it is of a rate
    return [_name(key), 1 / bound.rate_per_s, bound.burst, *tokens]


def _is_capped(request: Request) -> bool:
    return any(bound.max_in_flight is not None for _, bound in request.bounds)


def _by_cap(requests: Iterable[Request]) -> list[Words]:
    members: dict[str, list[str]] = {}
    for request in requests:
        for key, bound in request.bounds:
            if bound.max_in_flight is not None:
                members.setdefault(_name(key), []).append(request.member)
    return [[name, held] for name, held in members.items()]


def _tokens_of(requests: Iterable[Request]) -> dict[BoundKey, tuple[Bound, int]]:
    """How many tokens of each rate these have."""
    tokens: dict[BoundKey, tuple[Bound, int]] = {}
    for request in requests:
        for key, bound in request.bounds:
            if bound.rate_per_s is not None:
                tokens[key] = (bound, tokens.get(key, (bound, 0))[1] + 1)
    return tokens


def _first_refusal(request: Request, after_s: float) -> Refusal:
    """By the first of its caps, or else of its rates, which cannot be asked; there is one."""
    for key, bound in request.bounds:
        if bound.max_in_flight is not None:
            return Refusal(CAP, key, after_s)
    key = next(key for key, bound in request.bounds if bound.rate_per_s is not None)
    return Refusal(RATE, key, after_s)
