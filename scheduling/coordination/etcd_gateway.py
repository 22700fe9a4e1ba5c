"""etcd's JSON gateway over HTTP: calls go to whichever member of the cluster answers.

The gateway is a part of every etcd since 3.4. Each call is a POST of one JSON object over a connection that is kept. A
call that a member does not answer in time goes to the next one, which then stays the first to be asked; so a call may
be carried out twice, and those of ``EtcdClient`` are such that this does no harm.

A member has ``timeout_s`` to accept a connection, and as long for each piece of its answer. (Not bounded is the
resolver, where members are given by name.)
"""

from __future__ import annotations

import json
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit

from scheduling.core.errors import InvalidField
from scheduling.store.port import StoreUnavailable

Json = dict[str, Any]
T = TypeVar("T")
_HEADERS = {
    "Content-Type": "application/json",
    "Grpc-Metadata-Hasleader": "true",  # a member without a leader is to say so, at once and within a stream
}
_AUTHENTICATE = "/v3/auth/authenticate"
_TOKEN_REFUSED = (400, 401)  # 400: the token is of a time before accounts were changed


class EtcdRefused(StoreUnavailable):
    """etcd answered that it will not; ``status`` is that of HTTP."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"etcd refused: {reason}")
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdAddress:
    """A cluster, and who we are to it; what is empty is not used. ``urls`` are those of its members,
    ``http(s)://host:port``; ``user`` is ``name:password``; ``ca``, ``cert`` and ``key`` are paths of PEM files.
    """

    urls: tuple[str, ...]
    user: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""


class EtcdGateway:
    """One thread uses it. Raises InvalidField for TLS files that are none."""

    def __init__(self, address: EtcdAddress, *, timeout_s: float) -> None:
        tls = _tls(address)
        self._members = deque(_Member(url, tls=tls, timeout_s=timeout_s) for url in address.urls)
        self._user, self._token = address.user, ""

    def call(self, path: str, body: Json) -> Json:
        """Raises EtcdRefused, or StoreUnavailable where no member answers: whether it was carried out is unknown."""
        return self._from_any(lambda member: self._granted(member, path, body, _whole))

    def stream(self, path: str, body: Json, *, idle_s: float) -> Stream:
        """An answer that goes on, until it is silent for ``idle_s``. It occupies the gateway. Raises as ``call``."""

        def opened(member: _Member) -> Stream:
            member.close()  # the stream before this one
            return Stream(self._granted(member, path, body, _unread), member.line(), idle_s=idle_s)

        return self._from_any(opened)

    def close(self) -> None:
        for member in self._members:
            member.close()

    def _from_any(self, ask: Callable[[_Member], T]) -> T:
        problems = []
        for _ in range(len(self._members)):
            member = self._members[0]
            try:
                return ask(member)
            except (OSError, HTTPException, ValueError) as problem:  # ValueError: no JSON, so no etcd
                member.close()
                problems.append(f"{member.place}: {str(problem) or type(problem).__name__}")
                self._members.rotate(-1)
        raise StoreUnavailable(f"etcd does not answer ({'; '.join(problems)})")

    def _granted(self, member: _Member, path: str, body: Json, read: Callable[[HTTPResponse], T]) -> T:
        """With a token, where there is a user; tokens end with the member that gave them, and after some minutes."""
        if not self._user:
            return read(member.post(path, body))
        if self._token:
            try:
                return read(member.post(path, body, token=self._token))
            except EtcdRefused as refused:
                if refused.status not in _TOKEN_REFUSED:
                    raise
        name, _, password = self._user.partition(":")
        self._token = _whole(member.post(_AUTHENTICATE, {"name": name, "password": password}))["token"]
        return read(member.post(path, body, token=self._token))


class Stream:
    """The JSON objects of an answer that goes on. Any thread may ``close`` it, which ends the iteration."""

    def __init__(self, response: HTTPResponse, connection: socket.socket, *, idle_s: float) -> None:
        self._response, self._connection = response, connection
        connection.settimeout(idle_s)

    def __iter__(self) -> Iterator[Json]:
        """Ends when it was silent for too long. Raises StoreUnavailable when it breaks or is closed."""
        try:
            while line := self._response.readline():
                yield _result(_parsed(line))
        except TimeoutError:
            return
        except (OSError, HTTPException, ValueError) as problem:
            raise StoreUnavailable(f"etcd's stream broke: {str(problem) or type(problem).__name__}") from problem
        raise StoreUnavailable("etcd's stream was closed")

    def close(self) -> None:
        with suppress(OSError):  # it was closed already
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)  # wakes the reader; TLS says no goodbye


class _Member:
    """The connection to one member, made at first use and made again after it was closed, from whichever side."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        parts = urlsplit(url)
        self.place = parts.netloc
        host, port = parts.hostname or "", parts.port or 2379
        self._connection: HTTPConnection = (
            HTTPSConnection(host, port, timeout=timeout_s, context=tls)
            if parts.scheme == "https"
            else HTTPConnection(host, port, timeout=timeout_s)
        )

    def line(self) -> socket.socket:
        """The socket that the last answer comes by. Raises OSError if the connection ends with that answer."""
        if self._connection.sock is None:
            raise OSError("the connection does not stay open")
        return self._connection.sock

    def post(self, path: str, body: Json, *, token: str = "") -> HTTPResponse:
        """The answer, unread. Raises EtcdRefused; OSError or HTTPException where there is none."""
        headers = _HEADERS | ({"Authorization": token} if token else {})
        was_open = self._connection.sock is not None
        try:
            response = self._exchange(path, json.dumps(body).encode(), headers)
        except TimeoutError:
            raise
        except (OSError, HTTPException):
            if not was_open:
                raise
            self.close()  # it had ended since its last use: a member that was started again, say
            response = self._exchange(path, json.dumps(body).encode(), headers)
        _check(response)
        return response

    def close(self) -> None:
        self._connection.close()

    def _exchange(self, path: str, body: bytes, headers: dict[str, str]) -> HTTPResponse:
        self._connection.request("POST", path, body, headers)
        return self._connection.getresponse()


def _tls(address: EtcdAddress) -> ssl.SSLContext | None:
    if not any(url.startswith("https:") for url in address.urls):
        return None
    try:
        context = ssl.create_default_context(cafile=address.ca or None)
        if address.cert:
            context.load_cert_chain(address.cert, address.key or None)
    except OSError as problem:
        files = ", ".join(filter(None, (address.ca, address.cert, address.key)))
        raise InvalidField("the TLS files of etcd", files, str(problem)) from problem
    return context


def _check(response: HTTPResponse) -> None:
    """Raises EtcdRefused; OSError for what is the member's own trouble, since another may answer."""
    if response.status == 200:
        return
    answer = _parsed(response.read())
    reason = str(answer.get("message") or answer.get("error") or answer)
    if response.status >= 500:
        raise OSError(reason)
    raise EtcdRefused(response.status, reason)


def _unread(response: HTTPResponse) -> HTTPResponse:
    return response


def _whole(response: HTTPResponse) -> Json:
    return _result(_parsed(response.read()))


def _parsed(text: bytes) -> Json:
    """Raises ValueError for what etcd would not say."""
    answer = json.loads(text)
    if not isinstance(answer, dict):
        raise ValueError(f"{text[:40]!r} is not an answer of etcd's")
    return answer


def _result(answer: Json) -> Json:
    """What is said in a stream is wrapped. Raises OSError for a problem that came up after the status was sent."""
    if isinstance(error := answer.get("error"), dict):
        raise OSError(str(error.get("message") or error))
    result: Json = answer.get("result", answer)
    return result
