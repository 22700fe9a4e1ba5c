"""Budgets of the day: how many fires of a tenant may go in one (UTC, on the job clock), over all nodes.

A node takes permits out of the tenant's row in chunks, and hands them out from memory. The row counts what nodes have
taken, so no more than the budget ever go; what a node did not use it gives back: when it has had no need of it for a
while, as the day ends, and when the node does. A node that dies takes with it what it had, and, of what it had admitted
and not published, the next owner spends once more: the tenant loses that much of its day, and never gets more.

A budget counts fires, not attempts: a fire that has begun before spends nothing, nor one that this node has admitted
already. Used by one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from fairness.core.admission import BUDGET, Refusal, Request
from scheduling.core.clock import Clock
from scheduling.core.fire import Fire
from scheduling.store.arrays import integers
from scheduling.store.connection import Connection
from scheduling.store.statements import statements

CHUNK = 100  # permits beyond what is wanted just now
REST_S = 1.0  # after which an unused chunk goes back: others may have need of it
REMEMBERED = 10_000  # fires that have spent, lest one does twice
DAY_S = 86_400.0

Asked = tuple[Fire, Request]


@dataclass(slots=True)
class _Chunk:
    """What this node has of a tenant's day, under a budget of so many."""

    left: int
    daily_fires: int
    used_at: float  # monotonic


class Budgets:
    """The chunks of one node. Its calls raise psycopg.Error; what was given back before one did is not lost twice."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sql = statements("permits")
        self._day: date | None = None
        self._chunks: dict[int, _Chunk] = {}
        self._made: set[int] = set()  # tenants whose row of the day is there
        self._spent: OrderedDict[UUID, None] = OrderedDict()

    def take(self, connection: Connection, asked: Sequence[Asked]) -> list[Refusal | None]:
        """In their order; None: it has a permit, or needs none."""
        self._turn_day(connection)
        needy = [
            (fire, request)
            for fire, request in asked
            if request.daily_fires is not None and not fire.attempt and fire.id not in self._spent
        ]
        self._fill(connection, needy)
        refused: set[UUID] = set()
        for fire, request in needy:
            chunk = self._chunks.get(request.tenant_id)
            if fire.id in self._spent:
                continue  # asked for twice in one call
            if chunk is None or not chunk.left:
                refused.add(fire.id)
                continue
            chunk.left -= 1
            chunk.used_at = self._clock.monotonic()
            self._spent[fire.id] = None
        while len(self._spent) > REMEMBERED:
            self._spent.popitem(last=False)
        after_s = self._until_tomorrow_s()
        return [
            Refusal(BUDGET, (request.tenant_id, "", ""), after_s) if fire.id in refused else None
            for fire, request in asked
        ]

    def give_back(self, asked: Sequence[Asked]) -> None:
        """They had a permit, and did not go after all. (Of memory: no statement.)"""
        for fire, request in asked:
            if fire.id in self._spent:
                del self._spent[fire.id]
                chunk = self._chunks.get(request.tenant_id)
                if chunk is not None:
                    chunk.left += 1

    def rest(self, connection: Connection) -> None:
        """Give back what nobody has asked for in a while."""
        self._turn_day(connection)
        since = self._clock.monotonic() - REST_S
        self._return(connection, [tenant for tenant, chunk in self._chunks.items() if chunk.used_at < since])

    def close(self, connection: Connection) -> None:
        """Give back all."""
        self._return(connection, list(self._chunks))

    @property
    def has_chunks(self) -> bool:
        return bool(self._chunks)

    def _turn_day(self, connection: Connection) -> None:
        today = self._clock.now().date()
        if today != self._day:
            self._return(connection, list(self._chunks))
            self._day = today
            self._made.clear()
            self._spent.clear()

    def _fill(self, connection: Connection, needy: Sequence[Asked]) -> None:
        """Take what these want beyond the chunks that are there."""
        wanted: dict[int, int] = {}
        budgets: dict[int, int] = {}
        for _, request in needy:
            assert request.daily_fires is not None
            wanted[request.tenant_id] = wanted.get(request.tenant_id, 0) + 1
            budgets[request.tenant_id] = request.daily_fires
        changed = [tenant for tenant in wanted if tenant in self._chunks and self._differs(tenant, budgets[tenant])]
        self._return(connection, changed)  # what was taken under another budget may be too much under this one
        lacking = {
            tenant: count - chunk.left if (chunk := self._chunks.get(tenant)) else count
            for tenant, count in sorted(wanted.items())
        }
        lacking = {tenant: count for tenant, count in lacking.items() if count > 0}
        if not lacking:
            return
        if new := lacking.keys() - self._made:
            connection.execute(self._sql["make_budgets"], {"day": self._day, "tenants": integers(sorted(new))})
            self._made |= new
        values = {
            "day": self._day,
            "chunk": CHUNK,
            "tenants": integers(lacking),
            "wanted": integers(lacking.values()),
        }
        for tenant, granted in connection.execute(self._sql["take_budget"], values).fetchall():
            chunk = self._chunks.setdefault(tenant, _Chunk(0, budgets[tenant], self._clock.monotonic()))
            chunk.left += granted

    def _differs(self, tenant: int, daily_fires: int) -> bool:
        return self._chunks[tenant].daily_fires != daily_fires

    def _return(self, connection: Connection, tenants: Sequence[int]) -> None:
        """Forgotten first: of an answer that is lost nobody knows whether they are back."""
        chunks = {tenant: self._chunks.pop(tenant) for tenant in sorted(tenants)}
        unused = {tenant: chunk.left for tenant, chunk in chunks.items() if chunk.left}
        if unused:
            values = {"day": self._day, "tenants": integers(unused), "unused": integers(unused.values())}
            connection.execute(self._sql["return_budget"], values)

    def _until_tomorrow_s(self) -> float:
        """Real seconds; a day of them where job time stands still."""
        assert self._day is not None
        tomorrow = datetime.combine(self._day + timedelta(days=1), time(), UTC)
        return min(DAY_S, max(0.0, self._clock.real_time(tomorrow) - self._clock.monotonic()))
