"""The threads of a node whose tenants have limits, or shares."""

from __future__ import annotations

from dataclasses import dataclass

from fairness.core.admission import Limiter
from fairness.core.exchange import Exchange as Exchanging
from scheduling.core.clock import Clock
from scheduling.core.effects import Exchange, LimitsEffect
from scheduling.core.engine import Engine
from scheduling.node.admission import Admission
from scheduling.node.admitting import Admitting
from scheduling.node.exchanger import Exchanger
from scheduling.node.inbox import Inbox
from scheduling.node.share_keeper import LiveNodes, ShareKeeper
from scheduling.store.connection import Connect
from scheduling.store.permits import Permits


@dataclass(frozen=True, slots=True)
class Shares:
    """What limits and shares go by. ``exchange`` None: lanes have no bounds, and nothing is shared."""

    limiter: Limiter
    exchange: Exchanging | None
    live: LiveNodes


class ShareThreads:
    """One for what tenants may have, one that asks limits, and one that exchanges with other nodes."""

    def __init__(
        self, node: str, shares: Shares, *, engine: Engine, clock: Clock, inbox: Inbox, connect: Connect
    ) -> None:
        bounds_lanes = shares.exchange is not None
        self._keeper = ShareKeeper(node, engine, inbox, connect, shares.live, reads_reports=bounds_lanes)
        self._admission = Admission(Admitting(Permits(connect, clock), shares.limiter), engine, inbox)
        self._exchanger = None if shares.exchange is None else Exchanger(shares.exchange, engine, inbox)

    def start(self) -> None:
        self._keeper.start()
        self._admission.start()
        if self._exchanger is not None:
            self._exchanger.start()

    def ask(self, effect: LimitsEffect) -> None:
        self._admission.ask(effect)

    def tell(self, effect: Exchange) -> None:
        assert self._exchanger is not None, "there is nobody to exchange with"
        self._exchanger.tell(effect)

    def read_terms(self) -> None:
        self._keeper.read_soon()

    def stop(self, timeout_s: float) -> None:
        """Behind what was asked: each has so long."""
        if self._exchanger is not None:
            self._exchanger.stop(timeout_s)
        self._admission.stop(timeout_s)
        self._keeper.stop(timeout_s)
