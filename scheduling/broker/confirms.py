"""Which message awaits which confirm, on one channel of one connection.

A broker numbers the messages of a channel 1, 2, 3 … and answers with acks and nacks that name such a *delivery tag*;
``multiple`` means "and every lower one that is still open". Queues answer at their own pace, so tags come back in any
order::

    sent 1 2 3 4 5 6      ack 5       ack 3 multiple     → 1 2 3 settled      open: 4 6

Invariants:

- a message leaves the ledger once, whatever the broker repeats;
- a message that was returned (no such queue) is acked as well, and that ack is not a confirm: it comes out as
  ``returned``;
- the cost of ``multiple`` is amortised: ``_low`` only rises, so each tag is visited once by all of them together.

Pure: the messages are opaque, nothing here speaks to a broker or knows the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

M = TypeVar("M")


class ConfirmLedger(Generic[M]):
    """The open messages of one channel, by delivery tag."""

    __slots__ = ("_low", "_next", "_open", "_return_cursor", "_returned")

    def __init__(self) -> None:
        self._open: dict[int, M] = {}
        self._returned: set[int] = set()
        self._next = 1  # the tag of the next message
        self._low = 1  # no lower tag is open
        self._return_cursor = 1  # returns come in the order of sending: the next one is not below

    def __len__(self) -> int:
        return len(self._open)

    @property
    def next_tag(self) -> int:
        """The tag of the message that is sent next."""
        return self._next

    def sent(self, message: M) -> None:
        """``message`` is the next one on the wire."""
        self._open[self._next] = message
        self._next += 1

    def mark_returned(self, is_it: Callable[[M], bool]) -> M | None:
        """The first open message that ``is_it`` knows again came back from the broker; None if there is none."""
        for start, end in ((self._return_cursor, self._next), (self._low, self._return_cursor)):
            for tag in range(start, end):
                message = self._open.get(tag)
                if message is not None and tag not in self._returned and is_it(message):
                    self._returned.add(tag)
                    self._return_cursor = tag + 1
                    return message
        return None

    def settle(self, tag: int, *, multiple: bool) -> tuple[list[M], list[M]]:
        """Closes what an ack or a nack names: (those that it decides, those that had been returned)."""
        decided: list[M] = []
        returned: list[M] = []
        for one in self._named(tag, multiple=multiple):
            message = self._open.pop(one, None)
            if message is None:
                continue
            if self._returned and one in self._returned:
                self._returned.discard(one)
                returned.append(message)
            else:
                decided.append(message)
        return decided, returned

    def expire(self, below: int) -> list[M]:
        """Gives up on what is open with a tag lower than ``below``: a confirm that still comes settles nothing."""
        expired = []
        for tag in range(self._low, below):
            message = self._open.pop(tag, None)
            if message is not None:
                self._returned.discard(tag)
                expired.append(message)
        self._low = max(self._low, below)
        return expired

    def abandon(self) -> list[M]:
        """The connection ended: everything that is open, oldest first. The ledger is of no use afterwards."""
        messages = list(self._open.values())
        self._open.clear()
        self._returned.clear()
        return messages

    def _named(self, tag: int, *, multiple: bool) -> range:
        if not multiple:
            return range(tag, tag + 1)
        # Tag 0 with ``multiple`` means every message so far; RabbitMQ does not send it, the specification allows it.
        end = min(tag, self._next - 1) + 1 if tag else self._next
        named = range(self._low, end)
        self._low = max(self._low, end)
        return named
