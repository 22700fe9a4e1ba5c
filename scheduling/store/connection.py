"""A node's own connections to Postgres, made from the parameters that Django uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from scheduling.core.errors import StaleEpoch
from scheduling.store.port import StoreUnavailable

Connection = psycopg.Connection[TupleRow]
Connect = Callable[[], Connection]

STALE_EPOCH = "FB001"  # raised by fairbeat_hold_epochs
NODE_PREFIX = "fairbeat-node"  # of application_name: a take-over may end backends of this name that block it


def connector(params: dict[str, Any], *, name: str) -> Connect:
    """A function that connects; ``params`` are those of ``DatabaseWrapper.get_connection_params()``."""
    plain = {key: value for key, value in params.items() if key not in _DJANGO_ONLY}

    def connect() -> Connection:
        connection = psycopg.connect(
            **plain,
            autocommit=True,
            connect_timeout=5,
            application_name=f"{NODE_PREFIX} {name}"[:63],
            options=_SESSION,
        )
        connection.prepare_threshold = 2
        connection.prepared_max = 1000  # the bucketed store has some for each table of its ring
        return connection

    return connect


# Plans are made once, and have to do for partitions that were empty then: every statement of ours is one for an index.
_SESSION = " ".join(
    f"-c {setting}"
    for setting in (
        "idle_in_transaction_session_timeout=1s",
        "TimeZone=UTC",
        "plan_cache_mode=force_generic_plan",
        "enable_seqscan=off",
        "jit=off",
    )
)
_DJANGO_ONLY = {"cursor_factory", "context", "prepare_threshold", "client_encoding", "options"}


class Link:
    """One connection, made at first use and made again after it broke. Used by one thread."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    @contextmanager
    def __call__(self) -> Iterator[Connection]:
        """The connection, with its errors as ours.

        Raises StaleEpoch, StoreUnavailable.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            yield self._connection
        except psycopg.Error as error:
            if error.sqlstate == STALE_EPOCH:
                raise StaleEpoch([int(shard) for shard in (error.diag.message_detail or "").split(",")]) from None
            broken = self._connection is not None and self._connection.closed  # by a timeout: an InternalError
            if broken or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                self.close()
                raise StoreUnavailable(str(error).strip()) from error
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
