"""What a node says of its own health, to those who restart it (live) and to those who count on it (ready).

===========  =======================================================================================================
``/live``    200 while its loop turns: it is no use to wait for a process whose loop does not
``/ready``   200 while it lives, its lease is in force, it is not draining, and each shard that is to be its own has
             ticked within ``ready_s`` (``core.ticks``); a standby, which has none, is ready with ``"shards": 0``
===========  =======================================================================================================

Anything else is 503. The body is one line of JSON, with the reason.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from scheduling.core.address import host_and_port
from scheduling.core.errors import InvalidField
from scheduling.core.ticks import Ticks

logger = logging.getLogger(__name__)
LIVE_S = 5.0  # a loop that has not turned for so long is stuck, or for two polls, where that is more
READY_S = 2.0  # and three polls, where that is more
CLIENT_S = 5.0  # a client that says nothing for so long is sent away


@dataclass(frozen=True, slots=True)
class Answer:
    """``said`` are the values of the line of JSON."""

    ok: bool
    said: dict[str, Any] = field(default_factory=dict)


class Health:
    """Any thread may write and read it; ``ticks`` are the loop's."""

    def __init__(self, ticks: Ticks, *, poll_s: float) -> None:
        self._ticks = ticks
        self._live_s, self._ready_s = max(2 * poll_s, LIVE_S), max(3 * poll_s, READY_S)
        self._lease_until = 0.0
        self._turned_at = time.monotonic()
        self._is_draining = False

    def turned(self) -> None:
        """The loop has come round."""
        self._turned_at = time.monotonic()

    def renewed(self, lease_until: float) -> None:
        """The lease is in force until then, monotonic seconds."""
        self._lease_until = lease_until

    def drains(self) -> None:
        """From now on it takes nothing up."""
        self._is_draining = True

    def live(self) -> Answer:
        silent_s = time.monotonic() - self._turned_at
        if silent_s < self._live_s:
            return Answer(True, {"live": True})
        return Answer(False, {"live": False, "reason": f"the loop has not turned for {silent_s:.1f} s"})

    def ready(self) -> Answer:
        now = time.monotonic()
        silent: list[int] = []
        if not (live := self.live()).ok:
            reason = live.said["reason"]
        elif self._is_draining:
            reason = "it is draining"
        elif self._lease_until == 0.0:
            reason = "it has no lease yet"
        elif now >= self._lease_until:
            reason = f"its lease ran out {now - self._lease_until:.1f} s ago"
        elif silent := self._ticks.silent(now - self._ready_s):
            reason = f"no look at due rows of {len(silent)} shards has succeeded in the last {self._ready_s:g} s"
        else:
            return Answer(True, {"ready": True, "shards": self._ticks.count})
        said = {"ready": False, "shards": self._ticks.count, "reason": reason}
        return Answer(False, said | ({"silent": silent} if silent else {}))


class HealthServer:
    """Answers over HTTP, in daemon threads, until the process ends. ``address`` is host:port; port 0 is any free one.

    Raises InvalidField where that is no address, or cannot be had.
    """

    def __init__(self, address: str, health: Health) -> None:
        host, port = host_and_port(address)

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        class Handler(_Handler):
            answers = {"/live": health.live, "/ready": health.ready}

        try:
            self._server = Server((host, port), Handler)
        except OSError as problem:
            raise InvalidField("health", address, f"cannot listen there: {problem.strerror}") from problem
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}"

    def start(self) -> None:
        Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        logger.info("health is at %s/ready and /live", self.url)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    answers: dict[str, Any]
    timeout = CLIENT_S

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        ask = self.answers.get(self.path.partition("?")[0])
        if ask is None:
            self.send_error(404)
            return
        answer = ask()
        body = json.dumps(answer.said).encode() + b"\n"
        self.send_response(200 if answer.ok else 503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the library's signature)
        logger.debug(format, *args)
