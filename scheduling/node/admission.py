"""The thread that asks limits whether fires may go: Postgres and Redis may take their time, and nobody waits for them.

In the order in which it is told: what is let go is free before anybody is asked for again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread

from fairness.core.admission import CAP, Refusal
from scheduling.core.effects import Admit, Keep, Lease, LetGo, LimitsEffect
from scheduling.core.engine import Engine
from scheduling.node.admitting import Admitting
from scheduling.node.inbox import Inbox

logger = logging.getLogger(__name__)
REST_S = 1.0
AGAIN_S = 0.5  # after which those are asked for again for whom it could not be told


class Admission:
    def __init__(self, admitting: Admitting, engine: Engine, inbox: Inbox) -> None:
        self._admitting, self._engine, self._inbox = admitting, engine, inbox
        self._asked: SimpleQueue[LimitsEffect | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="limits", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self, effect: LimitsEffect) -> None:
        """Returns at once."""
        self._asked.put(effect)

    def stop(self, timeout_s: float) -> None:
        """Carry out what was asked, then end."""
        self._asked.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            try:
                effect = self._asked.get(timeout=REST_S)
            except Empty:
                self._carry_out(None)
                continue
            if effect is None:
                break
            self._carry_out(effect)
        self._admitting.close()

    def _carry_out(self, effect: LimitsEffect | None) -> None:
        try:
            match effect:
                case Admit(asked):
                    self._answer(effect, self._admitting.ask(asked))
                case Lease(wanted):
                    self._leased(effect, self._admitting.lease(wanted))
                case LetGo(asked, unspent):
                    self._admitting.let_go(asked, unspent=unspent)
                case Keep(asked):
                    self._admitting.hold([request for _, request in asked])
                case None:
                    self._admitting.rest()
        except Exception:
            logger.exception("limits could not be asked")
            if isinstance(effect, Admit):
                self._answer(effect, [Refusal(CAP, (one.tenant_id, "", ""), AGAIN_S) for _, one in effect.asked])
            elif isinstance(effect, Lease):
                self._leased(effect, [0] * len(effect.wanted))

    def _answer(self, effect: Admit, answers: Sequence[Refusal | None]) -> None:
        self._inbox.put(lambda: self._engine.admitted(effect, answers))

    def _leased(self, effect: Lease, tokens: Sequence[int]) -> None:
        self._inbox.put(lambda: self._engine.leased(effect, tokens))
