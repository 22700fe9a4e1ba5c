"""Fires → any transport of kombu but AMQP (Redis and Valkey above all), for those who have no RabbitMQ.

Such a transport knows no confirms: CONFIRMED means that the call returned (for Redis: the list has it, as durable as
that Redis is). The message is the same, header by header, as what RabbitMQ gets; queues are plain durable ones,
without arguments.

Invariants:

- one thread does all that may block; it sends batches, in a pipeline where the transport has one;
- when a call fails, what it carried is LOST, and what was not yet given to the transport is UNSENT;
- while there is no connection, ``publish`` reports UNSENT at once; it is tried again after 50 ms, doubling to 1 s.

Does not do: back-pressure (no such transport refuses a message), dead letters.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kombu
from kombu.utils.url import maybe_sanitize_url

from fairness.queues import QueueSpec
from scheduling.broker.port import Report
from scheduling.broker.reporter import Reporter
from scheduling.core import masking, message
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire, Verdict
from scheduling.core.masking import Mask
from scheduling.failpoints import Point, failpoint

BATCH = 200
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.05, 1.0
CONNECT_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)

Prepared = tuple[Fire, str, bytes, dict[str, Any]]  # a fire, its queue, body and headers


class KombuPublisher:
    """The ``Publisher`` for transports without confirms; the arguments are those of ``RabbitMQPublisher``.

    ``on_missing`` is never called: such a transport has every queue. ``transport_options`` are Celery's
    ``broker_transport_options``. Raises ``InvalidField`` for the address of an
    AMQP broker: there, ``RabbitMQPublisher`` gives confirms.
    """

    def __init__(
        self,
        url: str,
        *,
        origin: str,
        ignore_result: Callable[[str], bool | None],
        queue_for: Callable[[Fire], QueueSpec],
        on_missing: Callable[[str], None] = lambda _: None,  # noqa: ARG002  (RabbitMQPublisher's)
        on_stop: Callable[[], object] = lambda: None,
        batch: int = BATCH,
        transport_options: Mapping[str, Any] | None = None,
        tls: Any = None,
        mask: Mask = masking.DEFAULT,
    ) -> None:
        self._connection = kombu.Connection(
            url,
            connect_timeout=CONNECT_TIMEOUT_S,
            transport_options={"socket_connect_timeout": CONNECT_TIMEOUT_S, **(transport_options or {})},
            **({"ssl": tls} if tls else {}),
        )
        if self._connection.transport.driver_type == "amqp":
            raise InvalidField("url", maybe_sanitize_url(url), "an AMQP broker: RabbitMQPublisher is for these")
        self._origin, self._mask = origin, mask
        self._ignore_result = ignore_result
        self._queue_for, self._on_stop = queue_for, on_stop
        self._batch = batch
        self._reporter = Reporter()
        self._thread: threading.Thread | None = None
        self._first_attempt = threading.Event()
        self._changed = threading.Condition()  # guards all below
        self._inbox: deque[Fire] = deque()
        self._in_flight: list[Fire] = []
        self._is_connected = False
        self._stop_at: float | None = None

    def start(self, report: Report) -> None:
        """Begins; returns when the first attempt to connect has ended (a few seconds at most), whatever came of it."""
        self._reporter.start(report)
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()
        self._first_attempt.wait()

    def publish(self, fires: Sequence[Fire]) -> None:
        """Hands over; returns at once. Raises ``RuntimeError`` when the publisher is not running."""
        with self._changed:
            if self._thread is None or self._stop_at is not None or not self._thread.is_alive():
                raise RuntimeError("publish: the publisher is not running")
            if self._is_connected:
                self._inbox.extend(fires)
                self._changed.notify()
            else:
                self._reporter.tell(fires, Verdict.UNSENT)

    def stop(self, *, timeout_s: float) -> None:
        """Sends what was handed over, ``timeout_s`` at most. May be called again."""
        if self._thread is None or self._stop_at is not None:
            return
        with self._changed:
            self._stop_at = time.monotonic() + timeout_s
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            self._reporter.tell(self._in_flight, Verdict.LOST)
            self._reporter.tell(self._inbox, Verdict.UNSENT)
            self._in_flight = []
            self._inbox.clear()
        self._reporter.stop()
        self._on_stop()

    def _run(self) -> None:
        backoff_s = BACKOFF_MIN_S
        while self._stop_at is None:
            try:
                producer = self._connect()
            except Exception as error:  # every transport raises its own
                log.debug("the attempt to connect failed", exc_info=True)
                if backoff_s == BACKOFF_MIN_S:  # one line for an outage, not one a second
                    log.warning("cannot reach the broker %s, trying again: %s", self._connection.as_uri(), error)
                self._first_attempt.set()
                self._pause(backoff_s)
                backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
                continue
            log.info("connected to the broker %s", self._connection.as_uri())
            backoff_s = BACKOFF_MIN_S
            self._first_attempt.set()
            self._send_all(producer)
            self._pause(backoff_s)
        self._connection.close()

    def _connect(self) -> Any:
        self._connection.collect()
        self._connection = self._connection.clone()
        producer: Any = kombu.Producer(self._connection.channel())
        with self._changed:
            self._is_connected = True
        return producer

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stop_at is not None, seconds)

    def _send_all(self, producer: Any) -> None:
        """Sends batch after batch until a call fails, or we are to stop and have sent everything."""
        declared: set[str] = set()
        while fires := self._next_batch():
            prepared, refused = self._prepare(fires)
            given: list[Fire] = []
            try:
                failpoint(Point.PUBLISH_BEFORE)
                self._send(producer, prepared, declared=declared, given=given)
                failpoint(Point.PUBLISH_SENT)
                failpoint(Point.PUBLISH_CONFIRMED)  # that the call returned is the confirm
            except Exception as error:  # every transport raises its own
                log.warning("publishing to %s failed: %s", self._connection.as_uri(), error, exc_info=True)
                unsent = [one[0] for one in prepared[len(given) :]]
                whole = 0 if producer.supports_batch_publish else len(given) - 1
                self._decide(
                    {
                        Verdict.CONFIRMED: given[:whole],
                        Verdict.LOST: given[whole:],
                        Verdict.UNSENT: unsent,
                        Verdict.NACKED: refused,
                    },
                    is_connected=False,
                )
                return
            self._decide({Verdict.CONFIRMED: given, Verdict.NACKED: refused}, is_connected=True)

    def _next_batch(self) -> list[Fire]:
        """Waits for fires; none when we are to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._inbox or self._stop_at is not None)
            if self._stop_at is None or time.monotonic() < self._stop_at:
                self._in_flight = [self._inbox.popleft() for _ in range(min(self._batch, len(self._inbox)))]
            return list(self._in_flight)

    def _prepare(self, fires: list[Fire]) -> tuple[list[Prepared], list[Fire]]:
        """Messages; and the fires of which none can be made."""
        prepared, refused = [], []
        for fire in fires:
            work = fire.work
            try:
                headers = message.headers(
                    fire, origin=self._origin, ignore_result=self._ignore_result(work.task), mask=self._mask
                )
                prepared.append((fire, self._queue_for(fire).name, message.body(work.args, work.kwargs), headers))
            except (ValueError, TypeError) as error:
                log.error("fire %s of job %s cannot be published: %s", fire.id, work.job_id, error)
                refused.append(fire)
        return prepared, refused

    def _send(self, producer: Any, prepared: list[Prepared], *, declared: set[str], given: list[Fire]) -> None:
        """Gives messages to the transport; ``given`` grows with each one that may have got there."""
        for queue in {one[1] for one in prepared} - declared:
            kombu.Queue(queue, durable=True, channel=producer.channel).declare()
            declared.add(queue)
        with producer.batch(max_size=self._batch):
            for fire, queue, body, headers in prepared:
                given.append(fire)
                producer.publish(
                    body,
                    exchange="",
                    routing_key=queue,
                    headers=headers,
                    content_type="application/json",
                    content_encoding="utf-8",
                    delivery_mode=2,
                    priority=0,
                    correlation_id=headers["id"],
                    reply_to="",
                )

    def _decide(self, verdicts: Mapping[Verdict, list[Fire]], *, is_connected: bool) -> None:
        """Reports the batch in flight, unless ``stop`` has given up on it; without a connection, what waits as well."""
        with self._changed:
            if self._in_flight:
                for verdict, fires in verdicts.items():
                    self._reporter.tell(fires, verdict)
                self._in_flight = []
            self._is_connected = is_connected
            if not is_connected:
                self._reporter.tell(self._inbox, Verdict.UNSENT)
                self._inbox.clear()
