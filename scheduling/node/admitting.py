"""May these fires go? The limits of their tenants, one after another: budget and strict slots, then caps and rates.

A fire that a later one refuses gives back what an earlier one gave it: a refusal spends nothing. One thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fairness.core.admission import Limiter, Refusal, Request
from fairness.core.leases import Wanted
from scheduling.core.fire import Fire

Asked = tuple[Fire, Request]


class Permits(Protocol):
    """What only the store can say. Nothing has to be told of fires that are over."""

    def take(self, asked: Sequence[Asked]) -> list[Refusal | None]: ...

    def give_back(self, asked: Sequence[Asked]) -> None: ...

    def rest(self) -> None: ...

    def close(self) -> None: ...


class Admitting:
    def __init__(self, permits: Permits, limiter: Limiter) -> None:
        self._permits, self._limiter = permits, limiter

    def ask(self, asked: Sequence[Asked]) -> list[Refusal | None]:
        """In their order; None: it may go."""
        refusals = self._permits.take(asked)
        left = [at for at, refusal in enumerate(refusals) if refusal is None]
        if not left:
            return refusals
        for at, refusal in zip(left, self._limiter.admit([asked[at][1] for at in left]), strict=True):
            refusals[at] = refusal
        late = [asked[at] for at in left if refusals[at] is not None]
        if late:
            self._permits.give_back(late)
        return refusals

    def lease(self, wanted: Sequence[Wanted]) -> list[int]:
        """So many tokens of each are in hand now, for fires that are yet to come."""
        return self._limiter.lease(wanted)

    def let_go(self, asked: Sequence[Asked], *, unspent: bool = False) -> None:
        """They are over; or, ``unspent``, they did not go after all."""
        if unspent:
            self._permits.give_back(asked)
        self._limiter.leave([request for _, request in asked], unspent=unspent)

    def hold(self, requests: Sequence[Request]) -> None:
        """All that are in flight, every ten seconds."""
        self._limiter.hold(requests)

    def rest(self) -> None:
        """About once a second."""
        self._permits.rest()

    def close(self) -> None:
        self._permits.close()
        self._limiter.close()
