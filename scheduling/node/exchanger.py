"""The thread that exchanges with other nodes who has had how much, and who may have how many in flight."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread

from fairness.core.exchange import Exchange as Exchanging
from fairness.core.exchange import Settled
from scheduling.core.effects import Exchange
from scheduling.core.engine import Engine
from scheduling.node.inbox import Inbox

logger = logging.getLogger(__name__)


class Exchanger:
    def __init__(self, exchanging: Exchanging, engine: Engine, inbox: Inbox) -> None:
        self._exchanging, self._engine, self._inbox = exchanging, engine, inbox
        self._told: SimpleQueue[Exchange | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="exchanges", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tell(self, effect: Exchange) -> None:
        """Returns at once; the engine is told the answer."""
        self._told.put(effect)

    def stop(self, timeout_s: float) -> None:
        """End; this node's places are free."""
        self._told.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (effect := self._told.get()) is not None:
            self._answer(self._settled(effect))
        self._exchanging.leave()
        self._exchanging.close()

    def _settled(self, effect: Exchange) -> Sequence[Settled]:
        try:
            return self._exchanging.exchange(effect.lanes)
        except Exception:
            logger.exception("shares could not be exchanged with other nodes")
            return ()

    def _answer(self, settled: Sequence[Settled]) -> None:
        self._inbox.put(lambda: self._engine.exchanged(settled))
