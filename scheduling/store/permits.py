"""Permits of Postgres: what a fire must have before it is published, whatever else fails or lies.

Budgets of the day first, then slots of strict caps; a fire that is refused the second gives the first back. One
connection of its own, and one thread. While the store does not answer nothing goes that would need it: what cannot be
proven is not let through.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fairness.core.admission import BUDGET, CAP, Refusal, Request
from scheduling.core.clock import Clock
from scheduling.core.fire import Fire
from scheduling.store.budgets import REST_S, Budgets
from scheduling.store.connection import Connect, Link
from scheduling.store.port import StoreUnavailable
from scheduling.store.slots import Slots, strict_of

AGAIN_S = 0.5  # after which a store that did not answer is asked again

logger = logging.getLogger(__name__)


class Permits:
    """The fires must be ``claimed``, and committed, when they are asked for, and be asked for under each new fence."""

    def __init__(self, connect: Connect, clock: Clock) -> None:
        self._link = Link(connect)
        self._budgets, self._slots, self._clock = Budgets(clock), Slots(), clock
        self._rest_at = 0.0

    def take(self, asked: Sequence[tuple[Fire, Request]]) -> list[Refusal | None]:
        """In their order; None: it may go, as far as Postgres is asked."""
        if self._clock.monotonic() >= self._rest_at:
            self.rest()
        refusals: list[Refusal | None] = [None] * len(asked)
        budgeted = [at for at, (_, request) in enumerate(asked) if request.daily_fires is not None]
        if budgeted:
            try:
                with self._link() as connection:
                    found = self._budgets.take(connection, [asked[at] for at in budgeted])
            except StoreUnavailable as problem:
                logger.warning("no fires of tenants with a budget go: %s", problem)
                found = [Refusal(BUDGET, (asked[at][1].tenant_id, "", ""), AGAIN_S) for at in budgeted]
            for at, refusal in zip(budgeted, found, strict=True):
                refusals[at] = refusal
        strict = [at for at, (_, request) in enumerate(asked) if refusals[at] is None and strict_of(request)]
        if strict:
            try:
                with self._link() as connection:
                    found = self._slots.take(connection, [asked[at] for at in strict])
            except StoreUnavailable as problem:
                logger.warning("no fires under strict caps go: %s", problem)
                found = [Refusal(CAP, next(iter(strict_of(asked[at][1]))), AGAIN_S) for at in strict]
            for at, refusal in zip(strict, found, strict=True):
                refusals[at] = refusal
            self._budgets.give_back([asked[at] for at in strict if refusals[at] is not None])
        return refusals

    def give_back(self, asked: Sequence[tuple[Fire, Request]]) -> None:
        """They were let through, and did not go after all."""
        self._budgets.give_back(asked)
        strict = [fire for fire, request in asked if strict_of(request)]
        if strict:
            try:
                with self._link() as connection:
                    self._slots.give_back(connection, strict)
            except StoreUnavailable as problem:  # they are freed once the ledger says so
                logger.warning("slots were not given back: %s", problem)

    def rest(self) -> None:
        """About once a second, also where nobody takes: what nobody has asked for in a while goes back."""
        self._rest_at = self._clock.monotonic() + REST_S
        if self._budgets.has_chunks:
            self._return("parts of budgets were not given back", closing=False)

    def close(self) -> None:
        """Give back what was not used, and end."""
        if self._budgets.has_chunks:
            self._return("parts of budgets are lost for today", closing=True)
        self._link.close()

    def _return(self, otherwise: str, *, closing: bool) -> None:
        try:
            with self._link() as connection:
                self._budgets.close(connection) if closing else self._budgets.rest(connection)
        except StoreUnavailable as problem:
            logger.warning("%s: %s", otherwise, problem)
