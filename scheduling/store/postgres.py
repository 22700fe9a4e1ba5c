"""The indexed store: jobs carry their next fire in an index by shard.

One connection, one thread. A write is one transaction: hold the epochs, then the statement; both go out in one round
trip.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from threading import Timer
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Cursor
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from scheduling.core.due import Due
from scheduling.core.effects import Epochs, ReadDue, Settlement
from scheduling.core.fire import Fire, State
from scheduling.core.lost_lease import LostRun
from scheduling.core.overlap import Predecessors
from scheduling.core.plans import JobPlan
from scheduling.core.runs import HELD_BACK, Held, RunSeen
from scheduling.core.unstarted import Unstarted
from scheduling.core.waiting import Waiting
from scheduling.store import partitions
from scheduling.store.arrays import words
from scheduling.store.back_to_rows import back_to_rows
from scheduling.store.connection import NODE_PREFIX, Connect, Connection, Link
from scheduling.store.due import DueReader
from scheduling.store.holders import Holders
from scheduling.store.in_flight import read_held, read_runs, write_holds
from scheduling.store.pauses import end_those_over
from scheduling.store.reap import reap
from scheduling.store.rows import fire_of
from scheduling.store.statements import statements
from scheduling.store.unstarted import read_unstarted
from scheduling.store.values import (
    cancel_running,
    claim_values,
    mark_values,
    read_predecessors,
    release_values,
    settle_values,
    supersede,
)
from scheduling.store.waiting import read_waiting

HEADS = 1000  # of a tenant in a shard, that its owner knows to wait for their turn: about as many, at most
BLOCKED_S = 0.5  # a take-over that waits longer ends the node sessions that block it


class PostgresStore:
    """``grace``: how long beyond a run's lease whoever has locked its row is left alone."""

    def __init__(self, connect: Connect, *, grace: timedelta = timedelta(seconds=5)) -> None:
        self._connect = connect
        self._link = Link(connect)
        self._grace = grace
        self._holders = Holders(connect, grace=grace)
        self._sql = statements("schedule")
        self._due = DueReader(self._sql)
        self._days = partitions.KnownDays()
        self._places: dict[int, str] = {}  # of each shard's progress: where its row was written last

    # -- ownership ----------------------------------------------------------------------------------------------

    def take_over(self, shards: Collection[int], node: str) -> tuple[Epochs, list[Fire]]:
        named = {"shards": sorted(shards), "node": node}
        with self._link() as connection:
            unblock = Timer(BLOCKED_S, self._end_blockers, [connection.info.backend_pid])
            unblock.daemon = True
            unblock.start()
            try:
                with connection.transaction():
                    epochs = dict(connection.execute(self._sql["take_over"], named).fetchall())
                    unblock.cancel()
                    self._take_up(connection, shards)
                    rows = connection.execute(self._sql["recover"], named).fetchall()
                    connection.execute(self._sql["wake"], named | {"share": HEADS, "reasons": words(HELD_BACK)})
                    connection.execute(self._sql["start_epoch"], named)
            finally:
                unblock.cancel()
        now = time.monotonic()
        return epochs, [fire_of(row, now) for row in rows]

    def _take_up(self, connection: Connection, shards: Collection[int]) -> None:
        """Of what another stop's store left."""
        back_to_rows(connection, shards)

    def _end_blockers(self, waiting_pid: int) -> None:
        with Link(self._connect)() as connection, connection:
            connection.execute(self._sql["blockers"], {"waiting": waiting_pid, "prefix": NODE_PREFIX})

    # -- claim --------------------------------------------------------------------------------------------------

    def due(self, look: ReadDue) -> Due:
        with self._link() as connection:
            return self._due.read(connection, look)

    def claim(self, epochs: Epochs, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        with self._link() as connection:
            try:
                return self._claim(connection, epochs, plans)
            except psycopg.errors.CheckViolation:  # a day that we know of was dropped, by the node that expires history
                self._days.forget()
                return self._claim(connection, epochs, plans)

    def _claim(self, connection: Connection, epochs: Epochs, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        values = self._claim_values(plans)
        self._days.ensure(connection, plans)
        rows = self._write(connection, epochs, lambda: self._claim_by_rows(connection, plans, values)).fetchall()
        return {fire: fence for fire, state, fence in rows if state == State.CLAIMED}

    def _claim_by_rows(
        self, connection: Connection, plans: Sequence[JobPlan], values: Mapping[str, Any]
    ) -> Cursor[TupleRow]:
        claimed = connection.execute(self._sql["claim"], values)
        supersede(connection, plans)
        return claimed

    def _claim_values(self, plans: Sequence[JobPlan]) -> dict[str, Any]:
        return claim_values(plans)

    def promote(self, epochs: Epochs, *, now: datetime) -> bool:  # noqa: ARG002
        """Every job's row is in the index already."""
        return False

    def expire(self, shards: Collection[int], *, now: datetime) -> list[str]:  # noqa: ARG002
        """History is in one database: its partitions are of all shards."""
        with self._link() as connection:
            dropped = partitions.expire(connection, now=now)
        self._days.forget()
        return dropped

    # -- waiting fires ------------------------------------------------------------------------------------------

    def waiting(
        self, shards: Collection[int], *, now: datetime, limit: int, full: frozenset[int] = frozenset()
    ) -> Waiting:
        with self._link() as connection:
            rows, next_at = read_waiting(connection, self._sql, shards, now=now, limit=limit, full=full)
        read_at = time.monotonic()
        return Waiting([fire_of(row, read_at) for row in rows], next_at)

    def release(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        values = release_values(fires)
        with self._link() as connection:
            rows = self._write(connection, epochs, lambda: connection.execute(self._sql["release"], values)).fetchall()
        return {fire for (fire,) in rows}

    # -- what is published, and who is held ---------------------------------------------------------------------

    def held(self, shards: Collection[int]) -> Held:
        with self._link() as connection:
            return read_held(connection, shards)

    def runs(self, fires: Sequence[Fire]) -> list[RunSeen]:
        with self._link() as connection:
            return read_runs(connection, fires)

    def hold(
        self, epochs: Epochs, *, begun: Mapping[tuple[int, int], datetime], ended: Sequence[tuple[int, int]]
    ) -> None:
        with self._link() as connection, connection.transaction():
            connection.execute(self._sql["hold_epochs"], held_epochs(epochs))
            write_holds(connection, begun, ended)

    # -- what waits for others of its job -----------------------------------------------------------------------

    def predecessors(self, fires: Sequence[Fire]) -> dict[UUID, Predecessors]:
        with self._link() as connection:
            return read_predecessors(connection, fires)

    def settle(self, epochs: Epochs, settlements: Sequence[Settlement]) -> None:
        values = settle_values(settlements)
        with self._link() as connection:
            self._write(connection, epochs, lambda: connection.execute(self._sql["settle"], values))

    def cancel_running(self, epochs: Epochs, newest: Sequence[Fire]) -> list[LostRun]:
        with self._link() as connection, connection.transaction():
            connection.execute(self._sql["hold_epochs"], held_epochs(epochs))
            return cancel_running(connection, newest)

    def unstarted(self, after: Mapping[int, tuple[int, int]], *, patience: timedelta, limit: int) -> Unstarted:
        with self._link() as connection:
            return read_unstarted(connection, self._sql, after, patience=patience, limit=limit)

    def send_again(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        values = release_values(fires)
        with self._link() as connection:
            written = self._write(connection, epochs, lambda: connection.execute(self._sql["send_again"], values))
        return {fire for (fire,) in written.fetchall()}

    def record(self, epochs: Epochs, marks: Mapping[int, int]) -> None:
        known = {shard: mark for shard, mark in marks.items() if shard in self._places}
        with self._link() as connection:
            written: dict[int, str] = {}
            if known:
                places = "{" + ",".join([f'"{self._places[shard]}"' for shard in known]) + "}"
                values = mark_values(epochs, known) | {"places": places}
                written |= self._rows_written(connection, epochs, "record_in_place", values)
            if missing := {shard: mark for shard, mark in marks.items() if shard not in written}:
                written |= self._rows_written(connection, epochs, "record", mark_values(epochs, missing))
        self._places |= written

    def _rows_written(
        self, connection: Connection, epochs: Epochs, statement: str, values: Mapping[str, Any]
    ) -> dict[int, str]:
        """Gives where the new version of each shard's row is."""
        rows = self._write(connection, epochs, lambda: connection.execute(self._sql[statement], values))
        return dict(rows.fetchall())

    def reap(self, epochs: Epochs, *, now: datetime) -> list[LostRun]:
        with self._link() as connection, connection.transaction():
            connection.execute(self._sql["hold_epochs"], held_epochs(epochs))
            self._before_pauses_end(connection, epochs, now)
            end_those_over(connection, epochs, now=now)
            reaped = reap(connection, epochs, now=now, grace=self._grace)
        self._holders.end(reaped.held)
        return reaped.runs

    def _before_pauses_end(self, connection: Connection, shards: Collection[int], now: datetime) -> None:
        """The jobs' rows hold all that their end has to know."""

    def report(self, node: str, *, fires: int, latency: Mapping[str, Any]) -> None:
        with self._link() as connection:
            connection.execute(self._sql["report"], {"node": node, "fires": fires, "latency": Jsonb(latency)})

    def _write(
        self, connection: Connection, epochs: Epochs, statement: Callable[[], Cursor[TupleRow]]
    ) -> Cursor[TupleRow]:
        """One transaction in one round trip. The function that holds the epochs raises where one is stale, so the
        statement behind it never runs.
        """
        with connection.pipeline(), connection.transaction():
            connection.execute(self._sql["hold_epochs"], held_epochs(epochs))
            return statement()

    def close(self) -> None:
        self._link.close()


def held_epochs(epochs: Epochs) -> dict[str, list[int]]:
    return {"shards": list(epochs), "epochs": list(epochs.values())}
