"""Two sessions of the database, of which the first is stopped at its COMMIT while the second runs the product's code.

A deferred trigger on every table of ours runs when all statements of a transaction are done, before it commits. It
takes a lock that the stage holds: so whatever writes is stopped there, through Django or through a node's connection,
in a transaction or with a single statement. Then it notes what was written; what was rolled back left no note. Another
trigger stops the first with one row of a fire locked, and the rest of its statement to come.

Who waits is asked of the server (``pg_blocking_pids``); nothing here sleeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection, connections

from scheduling.store.connection import Connection, connector
from tests.processes import PATIENCE_S

LOCK, ROW_LOCK = 0x0FA1_57A6, 0x0FA1_57A7  # advisory: held by the stage while the first may not go on

TABLES = (
    "scheduling_fire",
    "scheduling_jobrun",
    "scheduling_job",
    "scheduling_entry",
    "scheduling_shard",
    "scheduling_shardprogress",
    "scheduling_deadletter",
    "scheduling_step",
    "scheduling_hold",
)
KEYS = {
    "shardprogress": "shard_id",
    "entry": "job_id",
    "deadletter": "fire_id",
    "step": "fire_id",
    "hold": "tenant_id",
}  # or "id"
INSTALL = f"""
CREATE TABLE pair_effect (holder uuid);  -- what tasks write in ctx.commit()
CREATE TABLE pair_write (place bigserial, seat text, name text, old jsonb, new jsonb);
CREATE FUNCTION pair_commits() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('pair.seat', true) = 'first' THEN
            PERFORM pg_advisory_xact_lock({LOCK});
        END IF;
        IF current_setting('pair.seat', true) <> '' THEN
            INSERT INTO pair_write (seat, name, old, new)
            VALUES (current_setting('pair.seat'), TG_ARGV[0], to_jsonb(OLD), to_jsonb(NEW));
        END IF;
        RETURN NULL;
    END
$$;
CREATE FUNCTION pair_writes_row() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('pair.seat', true) = 'first' THEN
            PERFORM pg_advisory_xact_lock({ROW_LOCK});
        END IF;
        RETURN coalesce(NEW, OLD);
    END
$$;
CREATE TRIGGER pair_writes_row BEFORE INSERT OR UPDATE OR DELETE ON scheduling_fire
    FOR EACH ROW EXECUTE FUNCTION pair_writes_row();
""" + "\n".join(
    f"CREATE CONSTRAINT TRIGGER pair_commits AFTER INSERT OR UPDATE OR DELETE ON {table} DEFERRABLE INITIALLY DEFERRED"
    f" FOR EACH ROW EXECUTE FUNCTION pair_commits('{table.removeprefix('scheduling_')}');"
    for table in TABLES
)
REMOVE = "DROP FUNCTION IF EXISTS pair_commits, pair_writes_row CASCADE; DROP TABLE IF EXISTS pair_write, pair_effect;"
SIT = "SELECT set_config('pair.seat', %s, false), set_config('synchronous_commit', 'off', false)"  # no crash is meant
BLOCKED = "SELECT bool_or(pg_blocking_pids(pid) && %s::integer[]) FROM unnest(%s::integer[]) AS pid"
CUT = "SELECT pg_terminate_backend(pid) FROM unnest(%s::integer[]) AS pid WHERE pg_blocking_pids(pid) && %s::integer[]"

Step = Callable[["Seat"], Any]


class Stop(Enum):
    """Where the first is stopped."""

    COMMIT = LOCK
    FIRST_ROW = ROW_LOCK  # of a fire: it is locked, what the statement has to do besides is not done


@dataclass(frozen=True)
class Write:
    """A row that a seat has written and committed; ``old`` or ``new`` is empty where it was made or taken away."""

    seat: str
    table: str
    old: dict[str, Any]
    new: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        row = self.new or self.old
        return self.table, str(row[KEYS.get(self.table, "id")])

    @property
    def id(self) -> UUID:
        return UUID(self.key[1])


@dataclass(frozen=True)
class Ended:
    """How a step ended: by its answer, or by what it raised; and whether it waited for the other one."""

    answer: Any = None
    error: BaseException | None = None
    waited: bool = False


class Seat:
    """A thread with a node's connection and with Django's, which tell the triggers whose they are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread = ThreadPoolExecutor(1, name)
        self._connect = connector(connection.get_connection_params(), name=name)
        self._session: Connection | None = None
        self._told: psycopg.Connection[Any] | None = None

    def connect(self) -> Connection:
        """The node's connection, which outlives the stores that use it."""
        if self._session is None or self._session.closed:
            self._session = self._connect()
            self._session.execute(SIT.encode(), [self.name])
        return self._session

    def pids(self) -> list[int]:
        return self._thread.submit(self._pids).result(PATIENCE_S)

    def _pids(self) -> list[int]:
        connection.ensure_connection()
        if connection.connection is not self._told:
            self._told = connection.connection
            with connection.cursor() as cursor:
                cursor.execute(SIT, [self.name])
        return [self.connect().info.backend_pid, self._told.info.backend_pid]

    def start(self, step: Step) -> Future[Any]:
        return self._thread.submit(step, self)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._thread.submit(self._close).result(PATIENCE_S)
        self._thread.shutdown()

    def _close(self) -> None:
        connections["default"].close()  # of that thread


class Stage:
    """Use as a context manager: the triggers are there within it."""

    def __init__(self) -> None:
        self.seats = Seat("first"), Seat("second")
        self.owner = Seat("")  # of whose writes no note is taken
        self.session = psycopg.connect(**connection.get_connection_params(), autocommit=True)

    def __enter__(self) -> Stage:
        self.session.execute(REMOVE + INSTALL)
        return self

    def __exit__(self, *_: object) -> None:
        for seat in (*self.seats, self.owner):
            seat.close()
        self.session.execute(REMOVE)
        self.session.close()

    def alone(self, step: Step) -> Ended:
        """By itself, on the second seat."""
        self.seats[1].pids()
        return _ended(self.seats[1].start(step), waited=False)

    def meet(self, first: Step, second: Step, *, stop: Stop = Stop.COMMIT, cut: bool = False) -> tuple[Ended, Ended]:
        """The first until it stops; the second until it has ended, or waits for the first; then the rest of the first,
        or with ``cut`` the end of its connection; and the rest of the second.
        """
        ones, twos = (seat.pids() for seat in self.seats)
        with self._holding(stop):
            one = self.seats[0].start(first)
            assert self._gets_blocked(one, ones, by=[self.session.info.backend_pid]), f"it wrote nothing: {_ended(one)}"
            two = self.seats[1].start(second)
            waited = self._gets_blocked(two, twos, by=ones)
            if cut:
                self.session.execute(CUT, [ones, [self.session.info.backend_pid]])
                wait([one], PATIENCE_S)
        return _ended(one, waited=False), _ended(two, waited=waited)

    @contextmanager
    def _holding(self, stop: Stop) -> Iterator[None]:
        self.session.execute("SELECT pg_advisory_lock(%s)", [stop.value])
        try:
            yield
        finally:
            self.session.execute("SELECT pg_advisory_unlock(%s)", [stop.value])

    def _gets_blocked(self, step: Future[Any], pids: Collection[int], *, by: Collection[int]) -> bool:
        """True once it waits for a lock of theirs, False when it has ended without."""
        while not step.done():
            if self.session.execute(BLOCKED, [list(by), list(pids)]).fetchone() == (True,):
                return True
            wait([step], 0.001)
        return False

    def writes(self) -> list[Write]:
        rows = self.session.execute("SELECT seat, name, old::text, new::text FROM pair_write ORDER BY place").fetchall()
        return [Write(seat, name, json.loads(old or "{}"), json.loads(new or "{}")) for seat, name, old, new in rows]


@contextmanager
def stopped_at_its_end(seat: Seat) -> Iterator[None]:
    """For what writes no row, as a DROP: the first's node connection is in one transaction, and stopped at its end."""
    if seat.name != "first":
        yield
        return
    with seat.connect().transaction():
        yield
        seat.connect().execute("SET LOCAL lock_timeout = 0")
        seat.connect().execute("SELECT pg_advisory_xact_lock(%s)", [Stop.COMMIT.value])


def _ended(step: Future[Any], *, waited: bool = False) -> Ended:
    error = step.exception(PATIENCE_S)
    return Ended(error=error, waited=waited) if error is not None else Ended(step.result(), waited=waited)
