"""Statements that stay prepared on a psycopg connection, each run by a single call of libpq.

A cursor of psycopg would do, at twice the CPU and, among threads, with several waits for Python's lock in place of one.
The price is that the handler of a signal runs only when the server has answered.

Invariants: nothing is done to the connection that its cursors could notice; a parameter has the same type whenever its
statement is run, and the server infers the type in SQL. Does not do: begin a transaction; prepare again what the server
has lost (that takes a new connection).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus

Session = psycopg.Connection[Any]
Row = tuple[Any, ...]

_PARAMETER = re.compile(r"%\((\w+)\)s")
_numbers = count()  # of all connections


def _interval(value: timedelta) -> bytes:
    return b"%d days %d seconds %d microseconds" % (value.days, value.seconds, value.microseconds)


_SAID: dict[type, tuple[Callable[[Any], bytes], Format]] = {
    UUID: (lambda value: value.bytes, Format.BINARY),
    int: (lambda value: b"%d" % value, Format.TEXT),
    str: (str.encode, Format.TEXT),
    datetime: (lambda value: value.isoformat().encode(), Format.TEXT),
    timedelta: (_interval, Format.TEXT),
}


@dataclass(frozen=True, slots=True)
class _Statement:
    name: bytes
    parameters: list[tuple[str, Callable[[Any], bytes]]]
    formats: list[Format]


class PreparedStatements:
    """By their texts, on any number of connections; each connection is used by one thread at a time."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Session, dict[str, _Statement]] = WeakKeyDictionary()

    def run(self, session: Session, text: str, values: dict[str, Any]) -> list[Row]:
        """The rows of a statement that returns some; its parameters are named ``%(name)s``.

        Raises psycopg's errors.
        """
        known = self._known.get(session)
        if known is None:
            known = self._known[session] = {}
        statement = known.get(text)
        if statement is None:
            statement = known[text] = _prepare(session, b"fairbeat_%d" % next(_numbers), text, values)
        parameters = [said(values[name]) for name, said in statement.parameters]
        result = session.pgconn.exec_prepared(statement.name, parameters, statement.formats)
        if result.status != ExecStatus.TUPLES_OK:
            raise _error(session, result)
        if not result.ntuples:
            return []
        reader = Transformer(session)
        reader.set_pgresult(result)
        return reader.load_rows(0, result.ntuples, tuple)


def can_run(session: Session) -> bool:
    """Whether a cursor would not have to begin a transaction first."""
    return session.autocommit or session.pgconn.transaction_status == TransactionStatus.INTRANS


def _prepare(session: Session, name: bytes, text: str, values: dict[str, Any]) -> _Statement:
    order: dict[str, int] = {}
    numbered = _PARAMETER.sub(lambda found: f"${order.setdefault(found[1], len(order) + 1)}", text)
    result = session.pgconn.prepare(name, numbered.encode())
    if result.status != ExecStatus.COMMAND_OK:
        raise _error(session, result)
    said = [_SAID[type(values[parameter])] for parameter in order]
    return _Statement(name, list(zip(order, (how for how, _ in said), strict=True)), [form for _, form in said])


def _error(session: Session, result: psycopg.pq.abc.PGresult) -> psycopg.Error:
    if session.pgconn.status == ConnStatus.BAD:
        return psycopg.OperationalError(result.get_error_message())
    return error_from_result(result)
