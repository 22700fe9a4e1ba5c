"""Does a service answer? One look at each, with a short time limit, by the driver that will use it later.

Raises `ServiceUnreachable` with the driver's own reason, or `InvalidField` for a URL that no driver takes. Passwords
are masked in both.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import redis
from kombu import Connection
from kombu.exceptions import KombuError

from project.environment.urls import masked, without_password
from scheduling.core.errors import InvalidField, ServiceUnreachable

CONNECT_TIMEOUT_S = 3

Probe = Callable[[str, str], None]


def postgres(field: str, url: str) -> None:
    """Connect to Postgres. `field` names the variable that holds `url`, for the message."""
    if not url.startswith(("postgres://", "postgresql://")):
        raise InvalidField(field, masked(url), "the URL of a Postgres starts with postgresql://")
    try:
        psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S).close()
    except psycopg.ProgrammingError as error:
        raise InvalidField(field, masked(url), without_password(str(error), url)) from error
    except psycopg.OperationalError as error:
        raise _unreachable(field, url, error) from error


def redis_(field: str, url: str) -> None:
    """Ping Redis. `field` names the variable that holds `url`, for the message."""
    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=CONNECT_TIMEOUT_S, socket_timeout=CONNECT_TIMEOUT_S)
    except ValueError as error:
        raise InvalidField(field, masked(url), without_password(str(error), url)) from error
    try:
        client.ping()
    except redis.RedisError as error:
        raise _unreachable(field, url, error) from error
    finally:
        client.close()


def broker(field: str, url: str) -> None:
    """Open a connection and a channel by kombu. `field` names the variable that holds `url`, for the message."""
    transport_errors: tuple[type[BaseException], ...]
    try:
        connection = Connection(url, connect_timeout=CONNECT_TIMEOUT_S)
        transport_errors = (OSError, KombuError, *connection.connection_errors, *connection.channel_errors)
    except (KeyError, ImportError) as error:
        raise InvalidField(field, masked(url), f"kombu has no transport for it ({error})") from error
    try:
        connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        connection.channel()
    except transport_errors as error:
        raise _unreachable(field, url, error) from error
    finally:
        connection.release()


def _unreachable(field: str, url: str, error: BaseException) -> ServiceUnreachable:
    reason = without_password(str(error), url) or type(error).__name__
    return ServiceUnreachable(f"{field} {masked(url)} does not answer: {reason}")
