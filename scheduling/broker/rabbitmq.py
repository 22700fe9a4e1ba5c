"""Fires → RabbitMQ, in batches, with confirms. The thread in here owns the socket; nobody else touches it.

States::

             dialled                 connection.blocked
    DOWN ───────────────▶ UP ◀──────────────────────────▶ BLOCKED
      ▲   (a helper thread     connection.unblocked          │
      │    shakes hands)       │                             │
      └────────────────────────┴─────────────────────────────┘
         socket error, close, silence:  sent → LOST, not yet sent → UNSENT;  dialled again after 50 ms, doubling to 1 s

Invariants, beside those of the session that lives while UP:

- a fire waits in here for room in the window or for the declaration of its queue, never for a connection: while DOWN
  or BLOCKED it is reported UNSENT at once. (BLOCKED is an alarm of the whole broker that may last for hours; the
  misfire policy has to judge again after it.)
- outcomes are reported from this thread only, so ``report`` is never called from within ``publish``; it must be quick
  and must not raise.

Does not do: retries of nacked, unsent or lost fires; order between fires.
"""

from __future__ import annotations

import logging
import math
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kombu.utils.url import maybe_sanitize_url

from scheduling.broker.amqp_frames import MessageWriter
from scheduling.broker.amqp_link import CONNECT_TIMEOUT_S, HEARTBEAT_S, PUBLISHING, AmqpLink, dial
from scheduling.broker.port import Report
from scheduling.broker.rabbitmq_session import OnMissing, QueueFor, Session
from scheduling.core import masking
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.core.masking import Mask

BATCH = 500
WINDOW = 4000
PATIENCE_S = 30.0
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.05, 1.0

log = logging.getLogger(__name__)


class RabbitMQPublisher:
    """The ``Publisher`` for RabbitMQ.

    ``url`` may name several brokers of one cluster, separated by ``;``, that are tried in turn. ``origin`` is the
    sender as Celery names it (``gen<pid>@<host>``); ``ignore_result`` says, by the name of a task, what the task says
    of its result (None where it is unknown); ``queue_for`` names a fire's queue, and is asked again when that turns out
    to be missing, which ``on_missing`` is told before; the first two are called often, and should be look-ups.
    ``on_stop`` is called when every fire has its outcome. ``patience_s`` is the longest wait for any answer of the
    broker. ``tls`` is Celery's ``broker_use_ssl``; ``mask`` hides secrets from logs and monitors.
    """

    def __init__(
        self,
        url: str,
        *,
        origin: str,
        ignore_result: Callable[[str], bool | None],
        queue_for: QueueFor,
        on_missing: OnMissing = lambda _: None,
        on_stop: Callable[[], object] = lambda: None,
        window: int = WINDOW,
        batch: int = BATCH,
        patience_s: float = PATIENCE_S,
        heartbeat_s: int = HEARTBEAT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: Any = None,
        mask: Mask = masking.DEFAULT,
    ) -> None:
        self._urls = deque(url.split(";"))
        self._dial_options: dict[str, Any] = {
            "heartbeat_s": heartbeat_s,
            "connect_timeout_s": connect_timeout_s,
            "tls": tls,
        }
        self._message_options: dict[str, Any] = {"origin": origin, "ignore_result": ignore_result, "mask": mask}
        self._session_options: dict[str, Any] = {
            "queue_for": queue_for,
            "on_missing": on_missing,
            "window": window,
            "batch": batch,
            "patience_s": patience_s,
        }
        self._on_stop = on_stop
        self._inbox: deque[Fire] = deque()
        self._outcomes: list[Outcome] = []  # not reported yet; the session appends to it
        self._report: Report
        self._thread: threading.Thread | None = None
        self._first_attempt = threading.Event()
        self._stop_at: float | None = None
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._is_awake = False
        self._lock = threading.Lock()  # guards the next two, which the dialling thread sees as well
        self._dialled: AmqpLink | Exception | None = None
        self._is_over = False
        self._is_dialling = False
        self._dial_at = 0.0
        self._backoff_s = BACKOFF_MIN_S
        self._session: Session | None = None
        self._selector = selectors.DefaultSelector()
        self._interest = 0  # events for which the link's socket is registered

    def start(self, report: Report) -> None:
        """Begins; returns when the first attempt to connect has ended (a few seconds at most), whatever came of it."""
        self._report = report
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()
        self._first_attempt.wait()

    def publish(self, fires: Sequence[Fire]) -> None:
        """Hands over; returns at once. Raises ``RuntimeError`` when the publisher is not running."""
        if self._thread is None or self._stop_at is not None or not self._thread.is_alive():
            raise RuntimeError("publish: the publisher is not running")
        self._inbox.extend(fires)
        self._wake()

    def stop(self, *, timeout_s: float) -> None:
        """Sends what was handed over and waits for its confirms, ``timeout_s`` at most. May be called again."""
        if self._thread is None or self._stop_at is not None:
            return
        self._stop_at = time.monotonic() + timeout_s
        self._wake()
        self._thread.join()
        self._wake_reader.close()
        self._wake_writer.close()
        self._on_stop()

    @property
    def is_connected(self) -> bool:
        """Whether fires are sent now; only a hint, since it may change at any instant."""
        session = self._session
        return session is not None and not session.is_blocked

    def _wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            self._wake_writer.send(b"\0")

    def _run(self) -> None:
        try:
            while not self._is_done():
                ready = self._selector.select(self._quiet_s())
                self._turn({key.fileobj for key, _ in ready})
        finally:
            self._finish()

    def _is_done(self) -> bool:
        if self._stop_at is None:
            return False
        waits = bool(self._inbox) or (self._session is not None and not self._session.is_idle)
        return not waits or time.monotonic() >= self._stop_at

    def _quiet_s(self) -> float | None:
        """How long nothing can happen unless a socket says so; None: for ever."""
        now_s = time.monotonic()
        until_s = math.inf if self._stop_at is None else self._stop_at - now_s
        if self._session is None:
            until_s = min(until_s, math.inf if self._is_dialling else self._dial_at - now_s)
        elif self._session.is_blocked or not self._session.can_send(self._inbox):
            until_s = min(until_s, self._session.link.next_beat_s(now_s), self._session.deadline_s - now_s)
        else:
            return 0.0
        return None if until_s == math.inf else max(0.0, until_s)

    def _turn(self, ready: set[Any]) -> None:
        if self._wake_reader in ready:
            self._wake_reader.recv(64)
            self._is_awake = False  # before the inbox is looked at: what comes later wakes again
        now_s = time.monotonic()
        self._take_dialled(now_s)
        if self._session is not None:
            self._advance(self._session, ready, now_s)
        elif not self._is_dialling and now_s >= self._dial_at:
            self._start_dialling()
        if not self.is_connected:
            self._refuse_waiting()
        self._tell()

    def _advance(self, session: Session, ready: set[Any], now_s: float) -> None:
        link = session.link
        try:
            if link.sock in ready:
                session.handle(link.receive(), now_s)
                link.flush()
            link.beat(now_s)
            session.expire(now_s)
            if not session.is_blocked:
                session.pump(self._inbox, now_s)
            self._watch(link)
        except OSError as error:
            log.warning("the connection to the broker ended, %d messages unconfirmed: %s", session.open_messages, error)
            self._disconnect(session, now_s)
        except Exception:
            log.exception("the publisher ends its connection after an error of its own")
            self._disconnect(session, now_s)

    def _disconnect(self, session: Session, now_s: float) -> None:
        self._selector.unregister(session.link.sock)
        self._interest = 0
        session.abandon()
        session.link.abort()
        self._session = None
        self._dial_at = now_s + self._backoff_s

    def _watch(self, link: AmqpLink) -> None:
        """The selector looks for what the link waits for."""
        interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.wants_to_write else 0)
        if interest == self._interest:
            return
        if self._interest:
            self._selector.modify(link.sock, interest)
        else:
            self._selector.register(link.sock, interest)
        self._interest = interest

    def _start_dialling(self) -> None:
        self._is_dialling = True
        url = self._urls[0]
        self._urls.rotate(-1)
        threading.Thread(target=self._dial, args=(url,), name="publisher-dial", daemon=True).start()

    def _dial(self, url: str) -> None:
        """In a thread of its own: a handshake blocks, and the publisher has fires to refuse meanwhile."""
        try:
            result: AmqpLink | Exception = dial(url, **self._dial_options)
        except Exception as error:  # py-amqp raises whatever a broken answer makes it stumble over
            log.debug("the handshake failed", exc_info=True)
            error.add_note(maybe_sanitize_url(url))
            result = error
        with self._lock:
            if not self._is_over:
                self._dialled = result
                self._wake_writer.send(b"\0")
            elif isinstance(result, AmqpLink):
                result.close()

    def _take_dialled(self, now_s: float) -> None:
        with self._lock:
            result, self._dialled = self._dialled, None
        if result is None:
            return
        self._is_dialling = False
        if isinstance(result, AmqpLink):
            log.info("connected to the broker")
            self._backoff_s = BACKOFF_MIN_S
            writer = MessageWriter(frame_max=result.frame_max, channel=PUBLISHING, **self._message_options)
            self._session = Session(result, writer, outcomes=self._outcomes, **self._session_options)
            self._watch(result)
        else:
            if self._backoff_s == BACKOFF_MIN_S:  # one line for an outage, not one a second
                log.warning("cannot reach the broker (%s), trying again: %s", *result.__notes__, result)
            self._dial_at = now_s + self._backoff_s
            self._backoff_s = min(2 * self._backoff_s, BACKOFF_MAX_S)
        self._first_attempt.set()

    def _refuse_waiting(self) -> None:
        if self._session is not None:
            self._session.drop_waiting()
        while self._inbox:
            self._outcomes.append(Outcome(self._inbox.popleft(), Verdict.UNSENT))

    def _tell(self) -> None:
        if self._outcomes:
            outcomes = self._outcomes.copy()
            self._outcomes.clear()
            self._report(outcomes)

    def _finish(self) -> None:
        with self._lock:
            self._is_over = True
        session, self._session = self._session, None
        if session is not None:
            session.abandon()
        self._refuse_waiting()
        self._first_attempt.set()
        self._tell()
        if session is not None:
            session.link.close()
        self._selector.close()
