"""Does a service answer? One look at each, with a short time limit, by the driver that will use it later.

Raises `ServiceUnreachable` with the driver's own reason, or `InvalidField` for a URL that no driver takes. Passwords
are masked in both.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import psycopg
import redis
from kombu import Connection
from kombu.exceptions import KombuError

from project.environment.urls import masked, without_password
from scheduling.coordination.etcd_client import EtcdClient
from scheduling.coordination.etcd_gateway import EtcdAddress, EtcdGateway, EtcdRefused
from scheduling.core.errors import InvalidField, ServiceUnreachable
from scheduling.store.port import StoreUnavailable

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


def etcd(field: str, url: str) -> None:
    """Read from an etcd, which so has a leader; `url` joins its members by commas. `ETCD_CA`, `ETCD_CERT` and
    `ETCD_KEY` are those of the settings. A refusal is an answer, too: this asks as nobody.
    """
    if not url.startswith(("http://", "https://")):
        raise InvalidField(field, masked(url), "the URL of an etcd starts with http:// or https://")
    files = {name.lower(): os.environ.get(f"ETCD_{name}", "") for name in ("CA", "CERT", "KEY")}
    try:
        address = EtcdAddress(urls=tuple(url.split(",")), **files)
        client = EtcdClient(EtcdGateway(address, timeout_s=CONNECT_TIMEOUT_S))
    except ValueError as error:
        raise InvalidField(field, masked(url), without_password(str(error), url)) from error
    try:
        client.read("fairbeat/")
    except EtcdRefused:
        pass
    except StoreUnavailable as error:
        raise _unreachable(field, url, error) from error
    finally:
        client.close()


def _unreachable(field: str, url: str, error: BaseException) -> ServiceUnreachable:
    reason = without_password(str(error), url) or type(error).__name__
    return ServiceUnreachable(f"{field} {masked(url)} does not answer: {reason}")
