"""What an engine is told of limits and shares, where tenants have any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fairness.core.admission import Refusal
from fairness.core.depth import Report
from fairness.core.exchange import Settled
from fairness.core.standing import TenantStanding
from fairness.core.terms import Terms
from scheduling.core.clock import Clock
from scheduling.core.dispatch import Dispatch
from scheduling.core.effects import Admit, Effect, Lease, LookAtRuns
from scheduling.core.runs import RunSeen
from scheduling.core.sharing import Sharing


class EngineShares:
    """Beneath ``Engine``. Without ``_sharing`` nothing is asked, and whatever is told changes nothing."""

    _clock: Clock
    _dispatch: Dispatch
    _sharing: Sharing | None

    def _may_act(self, now: float) -> bool:
        """Whether to claim and to publish."""
        raise NotImplementedError

    def set_terms(self, terms: Mapping[int, Terms], guarded: Collection[str]) -> list[Effect]:
        """Of all tenants, as they are now; before they are known nothing goes. ``guarded``: tasks that acquire."""
        if self._sharing is not None:
            self._sharing.set_terms(terms, guarded)
        return []

    def reported(self, reports: Sequence[Report]) -> list[Effect]:
        """What each worker said last; asked about twice a second."""
        if self._sharing is not None:
            self._sharing.reported(reports, self._clock.monotonic())
        return []

    def admitted(self, effect: Admit, answers: Sequence[Refusal | None]) -> list[Effect]:
        """In the order of what was asked for; None: it may go."""
        assert self._sharing is not None
        now = self._clock.monotonic()
        fires = self._sharing.turns.admitted(effect.asked, answers, now)
        if self._may_act(now):
            return self._dispatch.send(fires)
        self._dispatch.send_later(fires)
        return []

    def leased(self, effect: Lease, tokens: Sequence[int]) -> list[Effect]:
        """In the order of what was wanted: so many are spent, and in hand."""
        assert self._sharing is not None
        self._sharing.turns.terms.leases.granted(effect.wanted, tokens, self._clock.monotonic())
        return []

    def runs_seen(self, effect: LookAtRuns, runs: Sequence[RunSeen]) -> list[Effect]:  # noqa: ARG002
        assert self._sharing is not None
        self._sharing.runs_seen(runs, self._clock.monotonic())
        return []

    def holds_written(self) -> list[Effect]:
        assert self._sharing is not None
        self._sharing.looks.holds.written()
        return []

    def exchanged(self, settled: Sequence[Settled]) -> list[Effect]:
        assert self._sharing is not None
        self._sharing.exchanged(settled, self._clock.monotonic())
        return []

    def standings(self) -> list[TenantStanding]:
        """How the lanes of all tenants stand here. What they count is since the last call."""
        return [] if self._sharing is None else self._sharing.turns.told(self._clock.monotonic())
