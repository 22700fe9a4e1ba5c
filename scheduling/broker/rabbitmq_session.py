"""The life of fires on one connection to RabbitMQ::

    inbox ──▶ queue declared? ──▶ rendered ──▶ open ──▶ ack  → CONFIRMED
     ▲             │ no                          │ └──▶ nack → NACKED
     │             ▼                             ▼
     └── held until it is declared ◀── return, then ack: no such queue (``ATTEMPTS`` publications in all, then NACKED)

Invariants:

- exactly one outcome for each fire that was taken from the inbox, appended to ``outcomes``;
- at most ``window`` messages are open, and at most ``batch`` are rendered before what the broker said is read;
- nothing is waited for longer than ``patience_s``: a message that the broker does not confirm by then (its queue has
  lost its majority, say) is LOST and makes room for others; a declaration that it does not answer ends the connection;
- a fire that cannot be rendered, or whose queue the broker refuses to declare, is NACKED with a line in the log; it
  ends nothing else.

Owned by one thread, like its link. Every method may raise ``OSError``: the connection ended, and ``abandon`` is the
only call that is left.
"""

from __future__ import annotations

import logging
import math
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from uuid import UUID

from fairness.queues import QueueSpec
from scheduling.broker.amqp_frames import MessageWriter
from scheduling.broker.amqp_link import DECLARING, PUBLISHING, AmqpLink, LinkEnded
from scheduling.broker.amqp_reader import Answer, Blocked, ChannelClosed, Confirm, ConnectionClosed, Event, Returned
from scheduling.broker.confirms import ConfirmLedger
from scheduling.broker.topology import Topology
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.failpoints import Point, failpoint

ATTEMPTS = 3

log = logging.getLogger(__name__)

Item = tuple[Fire, int]  # a fire, and how often it has been published on this connection
QueueFor = Callable[[Fire], QueueSpec]
OnMissing = Callable[[str], None]
"""Is told the name of a queue that was declared before, and is not there any more; returns at once."""


class Session:
    """One connection's queues, open messages, and fires that wait for either."""

    def __init__(
        self,
        link: AmqpLink,
        writer: MessageWriter,
        *,
        outcomes: list[Outcome],
        queue_for: QueueFor,
        on_missing: OnMissing = lambda _: None,
        window: int,
        batch: int,
        patience_s: float,
    ) -> None:
        self.link = link
        self.is_blocked = False
        self._outcomes = outcomes
        self._writer = writer
        self._queue_for, self._on_missing = queue_for, on_missing
        self._window = window
        self._batch = batch
        self._patience_s = patience_s
        self._sent_by: deque[tuple[float, int]] = deque()  # (when, tag): lower tags were sent about then, or before
        self._ledger: ConfirmLedger[Item] = ConfirmLedger()
        self._topology = Topology(DECLARING)
        self._ready: deque[Item] = deque()
        self._held: defaultdict[str, list[Item]] = defaultdict(list)

    @property
    def open_messages(self) -> int:
        """How many are sent and not confirmed."""
        return len(self._ledger)

    @property
    def is_idle(self) -> bool:
        """Whether every fire that was taken has its outcome."""
        return not (self._ledger or self._ready or self._held)

    def can_send(self, inbox: deque[Fire]) -> bool:
        """Whether ``pump`` would take something now."""
        return bool(self._ready or inbox) and len(self._ledger) < self._window and not self.link.wants_to_write

    def pump(self, inbox: deque[Fire], now_s: float) -> None:
        """Sends one batch, as far as window and socket allow, and the declaration that is due."""
        frames = []
        if self.can_send(inbox):
            failpoint(Point.PUBLISH_BEFORE)
            for _ in range(min(self._batch, self._window - len(self._ledger), len(self._ready) + len(inbox))):
                item = self._ready.popleft() if self._ready else (inbox.popleft(), 0)
                if message := self._message(item, now_s):
                    frames.append(message)
            self._note_sending(now_s)
        has_messages = bool(frames)
        if declaration := self._topology.next_frame(now_s):
            frames.append(declaration)
        if frames:
            self.link.send(b"".join(frames))
        if has_messages:
            failpoint(Point.PUBLISH_SENT)

    @property
    def deadline_s(self) -> float:
        """The monotonic second at which ``expire`` has something to do."""
        oldest_s = self._sent_by[0][0] if self._sent_by else math.inf
        return min(oldest_s, self._topology.asked_at_s) + self._patience_s

    def expire(self, now_s: float) -> None:
        """Gives up on what the broker has not answered for too long."""
        if now_s >= self._topology.asked_at_s + self._patience_s:
            raise LinkEnded(f"the broker has not answered a declaration for {self._patience_s:g} s")
        while self._sent_by and now_s >= self._sent_by[0][0] + self._patience_s:
            if expired := self._ledger.expire(self._sent_by.popleft()[1]):
                log.error("%d messages were not confirmed within %g s", len(expired), self._patience_s)
                self._decide(expired, Verdict.LOST)

    def handle(self, events: Iterable[Event], now_s: float) -> None:
        """What the broker said."""
        decided = len(self._outcomes)
        for event in events:
            if type(event) is Confirm:
                self._confirm(event)
            elif isinstance(event, Returned):
                self._returned(event)
            elif isinstance(event, Answer):
                self._declared(self._topology.answered())
            elif isinstance(event, ChannelClosed):
                self._channel_closed(event, now_s)
            elif isinstance(event, Blocked):
                self._block(event, now_s)
            elif isinstance(event, ConnectionClosed):
                self.link.agree_to_close()
                raise LinkEnded(f"the broker closed the connection: {event.code} {event.text}")
        if len(self._outcomes) > decided:
            failpoint(Point.PUBLISH_CONFIRMED)

    def drop_waiting(self) -> None:
        """Fires that are not on the wire are UNSENT: also what to do while the broker is blocked."""
        waiting = [*self._ready, *(item for items in self._held.values() for item in items)]
        self._ready.clear()
        self._held.clear()
        self._decide(waiting, Verdict.UNSENT)

    def abandon(self) -> None:
        """The connection ended: what was sent and not confirmed is LOST, the rest UNSENT."""
        self._decide(self._ledger.abandon(), Verdict.LOST)
        self.drop_waiting()

    def _note_sending(self, now_s: float) -> None:
        """One note for what is sent within a tenth of the patience: it expires by so much too early."""
        if self._sent_by and now_s < self._sent_by[-1][0] + self._patience_s / 10:
            self._sent_by[-1] = (self._sent_by[-1][0], self._ledger.next_tag)
        else:
            self._sent_by.append((now_s, self._ledger.next_tag))

    def _message(self, item: Item, now_s: float) -> bytes | None:
        fire, published = item
        try:
            queue = self._queue_for(fire)
            if queue.name in self._topology.declared:
                message = self._writer.render(fire, queue.name)
                self._ledger.sent((fire, published + 1))
                return message
        except (ValueError, TypeError, struct.error) as error:
            log.error("fire %s of job %s cannot be published: %s", fire.id, fire.work.job_id, error)
            self._decide([item], Verdict.NACKED)
            return None
        if self._topology.is_refused(queue.name, now_s):
            self._decide([item], Verdict.NACKED)
        else:
            self._held[queue.name].append(item)
            self._topology.want(queue)
        return None

    def _confirm(self, confirm: Confirm) -> None:
        decided, returned = self._ledger.settle(confirm.tag, multiple=confirm.multiple)
        self._decide(decided, Verdict.CONFIRMED if confirm.accepted else Verdict.NACKED)
        for item in returned:
            if item[1] < ATTEMPTS:
                self._ready.append(item)
            else:
                log.error("fire %s: no queue took it in %d publications", item[0].id, ATTEMPTS)
                self._decide([item], Verdict.NACKED)

    def _returned(self, event: Returned) -> None:
        if event.routing_key in self._topology.declared:  # else another message told it
            self._topology.forget(event.routing_key)
            self._on_missing(event.routing_key)
        fire_id = UUID(event.correlation_id).int
        if self._ledger.mark_returned(lambda item: item[0].id.int == fire_id) is None:
            raise LinkEnded(f"the broker returned message {event.correlation_id}, which is not open")

    def _declared(self, queue: str | None) -> None:
        if queue is not None:
            self._ready.extend(self._held.pop(queue, ()))

    def _channel_closed(self, event: ChannelClosed, now_s: float) -> None:
        if event.channel == PUBLISHING:
            raise LinkEnded(f"the broker closed the publishing channel: {event.code} {event.text}")
        queue, frames = self._topology.channel_closed(now_s)
        self.link.send(frames)
        if queue is not None:
            items = self._held.pop(queue, [])
            log.error("queue %s cannot be declared, %d fires refused: %s %s", queue, len(items), event.code, event.text)
            self._decide(items, Verdict.NACKED)

    def _block(self, event: Blocked, now_s: float) -> None:
        self.is_blocked = event.reason is not None
        self._topology.ask_from(math.inf if self.is_blocked else now_s)
        if self.is_blocked:
            log.warning("the broker takes no messages for now: %s", event.reason)
        else:
            log.info("the broker takes messages again")

    def _decide(self, items: Iterable[Item], verdict: Verdict) -> None:
        self._outcomes.extend([Outcome(fire, verdict) for fire, _ in items])
