"""Slots of strict caps: rows in Postgres, of which a fire takes one before it is published.

No more fires of the cap can run than there are slots, whatever fails: a slot is taken in a transaction that locks the
tenant's, and is free again only where the ledger itself says that its fire can run no more under the fence under which
it took the slot::

    fire, under that fence             its slot
    claimed, running                   taken: a message is on its way, or a worker has it
    (a plain task's) that was sent     free: nobody sees its end
    parked, waiting for a retry        taken, but given to another that asks: its fence is lifted then, so that no
                                       worker takes a message of it that may be in a queue
    ended, or under a higher fence     free

So nothing has to be told when a fire is over, and no node, worker or Redis that dies leaves a slot behind. A fire that
is asked for again under the same fence has its slot already.

A cap that was lowered below what is there lets nobody in until there is room again.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from fairness.core.admission import CAP, Refusal, Request
from fairness.core.terms import BoundKey
from scheduling.core.fire import Fire
from scheduling.store.arrays import instants, integers, uuids
from scheduling.store.connection import Connection
from scheduling.store.statements import statements

LOCK = 0x510755  # first half of the advisory locks' keys, of which the tenant's id is the other
WAIT_S = 0.5  # for a node that gives out slots of the same tenant
REMEMBERED = 10_000  # slots that were taken by whom nothing was published yet

Asked = tuple[Fire, Request]


class _Row(NamedTuple):
    """A slot that some fire has, or waits with."""

    number: int
    fire_id: UUID
    scheduled_for: datetime
    history_days: int
    fence: int


@dataclass(slots=True)
class _Cap:
    """One strict cap while its slots are given out."""

    limit: int
    taken: dict[UUID, _Row] = field(default_factory=dict)
    waits: dict[UUID, _Row] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)  # numbers of both
    lowest: int = 1  # below it there is none that is free

    def has(self, fire: Fire) -> bool:
        row = self.taken.get(fire.id) or self.waits.get(fire.id)
        return row is not None and row.fence == fire.fence

    @property
    def has_room(self) -> bool:
        return len(self.taken) + len(self.waits) < self.limit

    def enter(self, fire: Fire) -> int:
        """Gives the number of its slot; there is one, for there is room."""
        while self.lowest in self.used:
            self.lowest += 1
        self.used.add(self.lowest)
        self.taken[fire.id] = _Row(self.lowest, fire.id, fire.scheduled_for, fire.work.history_days, fire.fence)
        return self.lowest


class Slots:
    """Gives slots out. Its calls raise psycopg.Error, and then nothing was given."""

    def __init__(self) -> None:
        self._sql = statements("permits", guarded=statements("schedule")["guarded"])
        self._fresh: OrderedDict[UUID, int] = OrderedDict()  # fires that were given some, under this fence

    def take(self, connection: Connection, asked: Sequence[Asked]) -> list[Refusal | None]:
        """In their order, all the slots of a fire or none; None: it has them, or needs none."""
        needs = [strict_of(request) for _, request in asked]
        caps = {key: _Cap(limit) for need in needs for key, limit in need.items()}
        if not caps:
            return [None] * len(asked)
        with connection.transaction():
            self._read(connection, caps)
            self._make_room(connection, caps, asked, needs)
            refusals: list[Refusal | None] = []
            rows: list[tuple[BoundKey, int, Fire]] = []
            for (fire, _), need in zip(asked, needs, strict=True):
                missing = [key for key in need if not caps[key].has(fire)]
                full = next((key for key in missing if not caps[key].has_room), None)
                refusals.append(None if full is None else Refusal(CAP, full))
                if full is None:
                    rows += [(key, caps[key].enter(fire), fire) for key in missing]
            if rows:
                connection.execute(self._sql["take_slots"], _values(rows))
        for _, _, fire in rows:
            self._fresh[fire.id] = fire.fence
        while len(self._fresh) > REMEMBERED:
            self._fresh.popitem(last=False)
        return refusals

    def give_back(self, connection: Connection, fires: Iterable[Fire]) -> None:
        """They did not go after all. The slot of one that may be in a queue is its own until the ledger frees it."""
        unsent = [fire for fire in fires if self._fresh.pop(fire.id, None) == fire.fence and not fire.published]
        if unsent:
            values = {"ids": uuids([fire.id for fire in unsent]), "fences": integers([fire.fence for fire in unsent])}
            connection.execute(self._sql["leave_slots"], values)

    def _read(self, connection: Connection, caps: dict[BoundKey, _Cap]) -> None:
        """All slots of these caps, none of which anybody else gives out from now on."""
        tenants, lanes, tasks = zip(*sorted(caps), strict=True)
        connection.execute(f"SET LOCAL lock_timeout = {int(WAIT_S * 1000)}")
        connection.execute(self._sql["lock_slots"], {"lock": LOCK, "tenants": integers(sorted(set(tenants)))})
        values = {"tenants": integers(tenants), "lanes": list(lanes), "tasks": list(tasks)}
        for tenant, lane, task, *row, standing in connection.execute(self._sql["slots"], values).fetchall():
            cap = caps[tenant, lane, task]
            if standing != "free":
                of = cap.taken if standing == "taken" else cap.waits
                slot = _Row(*row)
                of[slot.fire_id] = slot
                cap.used.add(slot.number)

    def _make_room(
        self,
        connection: Connection,
        caps: dict[BoundKey, _Cap],
        asked: Sequence[Asked],
        needs: Sequence[dict[BoundKey, int]],
    ) -> None:
        """Where a cap is full, and fires have slots of it that only wait: take theirs, as many as are wanted."""
        wanted: dict[BoundKey, int] = defaultdict(int)
        own = {fire.id for fire, _ in asked}
        for (fire, _), need in zip(asked, needs, strict=True):
            for key in need:
                wanted[key] += not caps[key].has(fire)
        void: dict[UUID, _Row] = {}
        for key, count in wanted.items():
            cap = caps[key]
            lacking = len(cap.taken) + len(cap.waits) + count - cap.limit
            theirs = [row for row in cap.waits.values() if row.fire_id not in own]
            void.update((row.fire_id, row) for row in theirs[: max(0, lacking)])
        if not void:
            return
        rows = list(void.values())
        values = {
            "ids": uuids([row.fire_id for row in rows]),
            "scheduled_fors": instants([row.scheduled_for for row in rows]),
            "history_days": integers([row.history_days for row in rows]),
            "fences": integers([row.fence for row in rows]),
        }
        for (fire_id,) in connection.execute(self._sql["void"], values).fetchall():
            for cap in caps.values():
                if row := cap.waits.pop(fire_id, None):
                    cap.used.discard(row.number)


def strict_of(request: Request) -> dict[BoundKey, int]:
    """The strict caps that it needs a slot of, with their numbers."""
    return {
        key: bound.max_in_flight for key, bound in request.bounds if bound.is_strict and bound.max_in_flight is not None
    }


def _values(rows: Sequence[tuple[BoundKey, int, Fire]]) -> dict[str, Any]:
    return {
        "tenants": integers([tenant for (tenant, _, _), _, _ in rows]),
        "lanes": [lane for (_, lane, _), _, _ in rows],
        "tasks": [task for (_, _, task), _, _ in rows],
        "numbers": integers([number for _, number, _ in rows]),
        "ids": uuids([fire.id for _, _, fire in rows]),
        "scheduled_fors": instants([fire.scheduled_for for _, _, fire in rows]),
        "history_days": integers([fire.work.history_days for _, _, fire in rows]),
        "fences": integers([fire.fence for _, _, fire in rows]),
    }
