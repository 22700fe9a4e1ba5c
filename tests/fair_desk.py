"""An engine that gives fair turns, on a desk: what has to be answered before anything goes is answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairness.core.depth import Report
from fairness.core.terms import Bound, Terms
from scheduling.core.effects import Admit, Effect, LookAtRuns, Publish, ReadHeld, Release, Settle
from scheduling.core.fair_turns import FairTurns
from scheduling.core.fire import Fire, Verdict
from scheduling.core.runs import Held, RunSeen
from scheduling.core.turn import FairLimits
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_work
from tests.engine_desk import Desk, of, one, published

TASK = "tests.none"
CAPPED = Bound(max_in_flight=2)


def terms(tenant: int = 1, **values: Any) -> Terms:
    """Of a tenant; ``bound`` is one of all that it does."""
    if (bound := values.pop("bound", None)) is not None:
        values["bounds"] = {("", ""): bound}
    return Terms(tenant, f"tenant-{tenant}", **values)


def report(slots: int) -> Report:
    return Report(slots=slots, busy=slots, waiting=0, idle_s=0.0, interval_s=1.0, ran=0, ran_s=0.0)


class FairDesk(Desk):
    """``slots`` that workers report; without any, lanes have no bound. ``places``: what the first depth comes to."""

    def __init__(self, *known: Terms, slots: int | None = None, held: Held | None = None, **options: Any) -> None:
        fairness = options.pop("fairness", FairLimits(exchanges=False))
        self._told = 0
        self._runs: list[RunSeen] = []
        self._looks: list[LookAtRuns] = []
        super().__init__(fairness=fairness, **options)
        self.set_terms(*known)
        if slots is not None:
            self.engine.reported([report(slots)])
        for read in of(ReadHeld, self.pass_time()):
            self.engine.held_read(read, held or Held())

    @property
    def turns(self) -> FairTurns:
        assert self.engine._sharing is not None
        return self.engine._sharing.turns

    def set_terms(self, *known: Terms, guarded: Iterable[str] = (TASK,)) -> None:
        all_terms: Mapping[int, Terms] = {tenant: terms(tenant) for tenant in range(1, 5)} | {
            one_.tenant_id: one_ for one_ in known
        }
        self.engine.set_terms(all_terms, frozenset(guarded))

    def due(self, count: int, *, tenant: int = 1, first: int = 0, **work: Any) -> list[Fire]:
        """So many fires of a tenant come due at once; gives them."""
        jobs = [make_due(make_work(first + tenant * 1000 + n, tenant_id=tenant, **work), NOON) for n in range(count)]
        return self.claim(*jobs)

    def go(self, seconds: float = 0.01) -> list[Fire]:
        """Whose turn has come since this was asked last."""
        self.run(seconds)
        went = published(self.effects[self._told :])
        self._told = len(self.effects)
        return went

    def confirm(self, fires: Iterable[Fire]) -> None:
        self.outcome(Verdict.CONFIRMED, *fires)

    def note(self, effects: Sequence[Effect]) -> list[Effect]:
        self._looks += of(LookAtRuns, effects)
        return super().note(effects)

    def _woken(self) -> list[Effect]:
        effects = super()._woken()
        for look in self._looks:
            looked_at = {fire.id for fire in look.fires}
            seen, self._runs = [run for run in self._runs if run.fire_id in looked_at], []
            self.engine.runs_seen(look, seen)
        self._looks.clear()
        return effects

    def end(self, fires: Iterable[Fire], ran_s: float | None = 0.1, *, is_running: bool = False) -> None:
        """The next look sees these."""
        self._runs = [RunSeen(fire.id, fire.fence, is_running, ran_s) for fire in fires]
        self.effects_until(LookAtRuns)

    def effects_until(self, kind: type[Any], most_s: float = 1.0) -> list[Effect]:
        """What is asked for by the time that there is one of these."""
        until, effects = self.clock.monotonic() + most_s, list[Effect]()
        while not of(kind, effects):
            wake = self.engine.next_wake()
            assert wake <= until, f"no {kind.__name__}"
            self.clock.advance_to(wake)
            effects += self._woken()
        return effects


__all__ = ["NOON", "SECOND", "Admit", "Bound", "FairDesk", "Publish", "Release", "Settle", "report", "terms"]


def stored(desk: FairDesk) -> Settle:
    """What has waited for its turn longer than a second is parked, and that is written."""
    settle = one(Settle, desk.effects_until(Settle))
    desk.engine.settled(settle)
    return settle
