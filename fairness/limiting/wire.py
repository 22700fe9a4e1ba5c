"""One connection to Redis on which scripts are called, each with a short time limit, and the circuit that opens when it
does not answer.

::

    CLOSED ── three failures in a row, or nobody listens ──> OPEN ── a call that is answered ──> CLOSED

While it is open, one call is let through at each whole second by this machine's clock. So all nodes try at the same
moment: one that comes back later than the others has its own part of each limit for so long, beside the whole of it.

One thread calls it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from hashlib import sha1
from importlib.resources import files
from math import floor
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

logger = logging.getLogger(__name__)

TIMEOUT_S = 0.05
FAILURES = 3  # in a row


class Script:
    """Lua of this package. ``parts`` are its files, put together in their order."""

    def __init__(self, *parts: str) -> None:
        here = files("fairness.limiting")
        self.text = "\n".join(here.joinpath(part).read_text() for part in parts).encode()
        self.sha = sha1(self.text, usedforsecurity=False).hexdigest()


class Wire:
    """Raises ValueError for a URL that is none. Connects at the first call."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, clock: Callable[[], float] = time.time) -> None:
        pool = redis.ConnectionPool.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            driver_info=None,
        )
        self._connection: Any = pool.make_connection()
        place = pool.connection_kwargs
        self._shown = f"{place.get('path') or '{host}:{port}'.format(**{'host': 'localhost', 'port': 6379} | place)}"
        self._clock = clock
        self._failures = 0
        self._next_try = 0.0
        self.is_open = False

    @property
    def may_call(self) -> bool:
        """It is closed, or it is time to try."""
        return not self.is_open or self._clock() >= self._next_try

    def call(self, script: Script, *arguments: str) -> list[Any] | None:
        """What the script returns; None: no answer, and nobody knows whether it was carried out."""
        try:
            self._connection.connect()
        except (redis.RedisError, OSError) as error:
            self._failed(error, for_good=not isinstance(error, redis.TimeoutError | TimeoutError))
            return None
        try:
            try:
                reply = self._send("EVALSHA", script.sha, "1", *arguments)
            except NoScriptError:
                reply = self._send("EVAL", script.text, "1", *arguments)
        except (redis.RedisError, OSError) as error:
            self._failed(error, for_good=False)
            return None
        if self.is_open:
            logger.info("Redis at %s answers again", self._shown)
        self._failures, self.is_open = 0, False
        assert isinstance(reply, list)  # as all our scripts return
        return reply

    def close(self) -> None:
        self._connection.disconnect()

    def _send(self, *words: str | bytes) -> Any:
        self._connection.send_command(*words)
        return self._connection.read_response()

    def _failed(self, error: Exception, *, for_good: bool) -> None:
        self._connection.disconnect()
        self._failures += 1
        self._next_try = floor(self._clock()) + 1.0
        if not self.is_open and (for_good or self._failures >= FAILURES):
            self.is_open = True
            logger.warning("Redis at %s does not answer (%s): this node keeps to its part", self._shown, error)
