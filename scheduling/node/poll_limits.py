"""The limits of tenants at stop 2: what a poll has taken is asked for before it is published.

What is refused is parked, and comes back by ``core.lines``. Admission is behind the claim's commit, since others must
see the rows of those who hold strict slots; a poller that dies in between leaves claims whose deadline passes. Fires of
capped tenants are looked at until they are over. What another poller published, and did not live to see the end of, is
held at the start and every ten seconds by whoever lives. Called by the poller's thread alone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from fairness import standings
from fairness.core.admission import Refusal, Request, request_of
from fairness.core.terms import Bound, Terms
from scheduling.core.clock import Clock
from scheduling.core.effects import Settlement
from scheduling.core.fire import Fire
from scheduling.core.judging import parked
from scheduling.core.lines import FAR_S, MOST, LineKey, Lines, keys_of
from scheduling.node.admitting import Admitting
from scheduling.node.poll_standings import PollStandings
from scheduling.node.share_keeper import LiveNodes
from scheduling.store.connection import Connect, Link
from scheduling.store.fleet import live_nodes
from scheduling.store.polling import PollingStore
from scheduling.store.port import StoreUnavailable
from scheduling.store.terms import TermsReader

READ_S = 1.0  # terms
HOLD_S = 10.0
SEEK_S = 60.0  # lines that others have left
TELL_S = 3.0

logger = logging.getLogger(__name__)


class PollLimits:
    """``live`` is told which nodes live; how tenants stand is told by the name of this ``node``."""

    def __init__(
        self, node: str, *, store: PollingStore, admitting: Admitting, connect: Connect, clock: Clock, live: LiveNodes
    ) -> None:
        self._node, self._store, self._admitting, self._clock, self._live = node, store, admitting, clock, live
        self._link, self._reader = Link(connect), TermsReader()
        self._lines, self._standings = Lines(), PollStandings(clock.monotonic())
        self._in_flight: dict[UUID, tuple[Fire, Request]] = {}  # of capped tenants; published, and not seen over
        self._confirmed: set[UUID] = set()
        self._read_at = self._hold_at = self._seek_at = self._tell_at = 0.0

    def start(self) -> None:
        """Read what there may be, and hold what is in flight, before anything is admitted.

        Raises StoreUnavailable.
        """
        self._read()
        self._hold(self._store.in_flight(self._capped(), with_published=True))
        now = self._clock.monotonic()
        self._read_at, self._hold_at = now + READ_S, now + HOLD_S

    def admit(self, fires: Sequence[Fire], returned: Collection[UUID]) -> list[Fire]:
        """Those that are to be published; the others are parked. ``returned`` had waited, and go behind nobody."""
        fires = self._known(fires)
        now = self._clock.monotonic()
        free: list[Fire] = []
        asked: list[tuple[Fire, Request]] = []
        held: list[Settlement] = []
        for fire in sorted(fires, key=lambda fire: fire.fire_at):
            request = self._request(fire)
            if request is None:
                free.append(fire)
            elif fire.id not in returned and (line := self._lines.ahead_of(request)):
                held.append(parked(fire, line[0], self._clock, FAR_S))
                self._standings.throttled(fire, None, now)
            else:
                asked.append((fire, request))
        refusals = self._admitting.ask(asked) if asked else []
        admitted = [pair for pair, refusal in zip(asked, refusals, strict=True) if refusal is None]
        for (fire, request), refusal in zip(asked, refusals, strict=True):
            if refusal is not None:
                held.append(self._refused(fire, request, refusal, now, is_new=fire.id not in returned))
        for fire, request in admitted:
            self._in_flight[fire.id] = fire, request
            self._standings.went(fire, now)
        if held:
            try:
                self._store.park(held)
            except StoreUnavailable as problem:  # they are claimed, and so found again
                logger.warning("%d fires whose limits say: later, were not parked: %s", len(held), problem)
        return [*free, *(fire for fire, _ in admitted)]

    def _known(self, fires: Sequence[Fire]) -> Sequence[Fire]:
        """Without those of whose tenants nothing can be read: they stay claimed, until their deadline."""
        if all(fire.work.tenant_id in self._reader.terms for fire in fires):
            return fires
        try:
            self._read()
        except StoreUnavailable as problem:
            logger.warning("the limits of new tenants are not known: %s", problem)
        return [fire for fire in fires if fire.work.tenant_id in self._reader.terms]

    def confirmed(self, fires: Iterable[Fire]) -> None:
        """Their messages are with the broker. Of what has no cap, or whose end nobody sees, that was all."""
        over = []
        for fire in fires:
            pair = self._in_flight.get(fire.id)
            if pair is None:
                continue
            if is_capped(pair[1]) and fire.work.task in self._reader.guarded:
                self._confirmed.add(fire.id)
            else:
                over.append(fire.id)
        self._let_go(over)

    def dropped(self, fires: Iterable[Fire]) -> None:
        """Their claims are another's from now on; their places are, too."""
        for fire in fires:
            self._in_flight.pop(fire.id, None)
            self._confirmed.discard(fire.id)

    def look(self) -> bool:
        """Once each poll: terms that changed, fires that are over, those whose turn it is; True: some of them are due.

        Raises StoreUnavailable.
        """
        now = self._clock.monotonic()
        if now >= self._read_at:
            self._read_at = now + READ_S
            self._read()
            self._admitting.rest()
        looked_at = [self._in_flight[fire][0] for fire in self._confirmed]
        if looked_at:
            self._let_go([seen.fire_id for seen in self._store.runs(looked_at) if not seen.is_running])
        if now >= self._hold_at:
            self._hold_at = now + HOLD_S
            self._hold(self._store.in_flight(self._capped(), with_published=False))
        if now >= self._seek_at:
            self._seek_at = now + SEEK_S
            self._lines.look_for(list(_lines_of(self._reader.terms.values())), now)
        if now >= self._tell_at:
            self._tell_at = now + TELL_S
            self._tell(now)
        return self._bring_back(now)

    def wait_s(self) -> float | None:
        """When to poll again for those who wait; None: nobody does."""
        next_at = self._lines.next_at()
        return None if next_at is None else max(0.0, next_at - self._clock.monotonic())

    def close(self) -> None:
        self._admitting.close()
        self._link.close()

    def _request(self, fire: Fire) -> Request | None:
        """None: nothing has to be asked for."""
        terms = self._reader.terms[fire.work.tenant_id]
        if not terms.is_limited:
            return None
        request = request_of(str(fire.id), terms, lane=fire.work.lane, task=fire.work.task)
        return request if request.bounds or request.daily_fires is not None else None

    def _refused(self, fire: Fire, request: Request, refusal: Refusal, now: float, *, is_new: bool) -> Settlement:
        self._standings.throttled(fire, refusal, now)
        after_s = self._lines.refused(request, refusal, now, is_new=is_new)
        return parked(fire, refusal.reason, self._clock, after_s)

    def _let_go(self, fires: Sequence[UUID]) -> None:
        over = [self._in_flight.pop(fire) for fire in fires]
        self._confirmed.difference_update(fires)
        if over:
            now = self._clock.monotonic()
            self._admitting.let_go(over)
            for _, request in over:
                self._lines.left(request, now)

    def _bring_back(self, now: float) -> bool:
        found = 0
        for pull in self._lines.pulls(now):
            woken, is_more = self._store.bring_back(pull, now=self._clock.now())
            self._lines.pulled(pull, woken, now, is_more=is_more)
            found += woken
        return found > 0

    def _tell(self, now: float) -> None:
        waiting = self._store.waiting_for_limits(sorted(self._lines.tenants()))
        in_flight = [fire for fire, _ in self._in_flight.values()]
        rows = self._standings.told(now, terms=self._reader.terms, in_flight=in_flight, waiting=waiting)
        with self._link() as connection:
            standings.write(connection, self._node, rows)

    def _read(self) -> None:
        before = self._reader.terms
        with self._link() as connection:
            changed = self._reader.read(connection)
            self._live.know(live_nodes(connection))
        if changed and before:
            after = self._reader.terms
            tenants = [tenant for tenant, terms in before.items() if after.get(tenant) != terms]
            lines = dict(_lines_of(before[tenant] for tenant in tenants))
            lines |= dict(_lines_of(after[tenant] for tenant in tenants if tenant in after))
            self._lines.look_for(list(lines.items()), self._clock.monotonic(), step=MOST)

    def _capped(self) -> list[int]:
        return [
            tenant
            for tenant, terms in self._reader.terms.items()
            if any(bound.max_in_flight is not None for bound in terms.bounds.values())
        ]

    def _hold(self, others: Sequence[Fire]) -> None:
        """All that are in flight, ours and those (``others``) that some poller has published."""
        for fire in others:
            request = self._request(fire)  # of tenants whose terms are known: they were asked for by these
            if request is not None and is_capped(request) and fire.id not in self._in_flight:
                self._in_flight[fire.id] = fire, request
                self._confirmed.add(fire.id)
        self._admitting.hold([request for _, request in self._in_flight.values() if is_capped(request)])


def is_capped(request: Request) -> bool:
    """Whether it holds a place until it is over."""
    return any(bound.max_in_flight is not None for _, bound in request.bounds)


def _lines_of(terms: Iterable[Terms]) -> Iterable[tuple[LineKey, Bound]]:
    """All lines that there may be of these tenants."""
    for each in terms:
        bounds = [((each.tenant_id, *part), bound) for part, bound in each.bounds.items()]
        yield from keys_of(Request("", each.tenant_id, "", "", bounds, each.daily_fires))
