"""Hears of what happens to etcd's keys as soon as etcd knows.

What it misses, as while its connection is made again, whoever watches must find in another way, later; it tells of a
change where it may have missed one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from scheduling.coordination.etcd_client import EtcdClient
from scheduling.coordination.etcd_gateway import Json, Stream
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)
IDLE_S = 10.0  # a watch that was silent for so long is begun anew: its member may be gone without a word
AGAIN_S = 1.0  # how soon a watch is tried again


class EtcdWatch:
    """``on_change`` is called from its thread, once for events that came together, where ``is_news`` says so of one.
    It is the only user of its client.
    """

    def __init__(
        self, etcd: EtcdClient, prefix: str, *, is_news: Callable[[Json], bool], on_change: Callable[[], None]
    ) -> None:
        self._etcd, self._prefix, self._is_news, self._on_change = etcd, prefix, is_news, on_change
        self._stream: Stream | None = None
        self._tried, self._stopping = Event(), Event()
        self._thread = Thread(target=self._run, name="etcd watch", daemon=True)

    def start(self) -> None:
        """Begins; returns once it watches, or could not: it goes on trying then."""
        self._thread.start()
        self._tried.wait()

    def stop(self) -> None:
        """Ends at once, or when the member that it is calling has had its time. May be called again."""
        self._stopping.set()
        if self._stream is not None:
            self._stream.close()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._try()
        finally:
            self._tried.set()
            self._etcd.close()

    def _try(self) -> None:
        try:
            self._watch()
        except StoreUnavailable as problem:
            if not self._stopping.is_set():
                logger.warning("no watch for now, renewals go on: %s", problem)
            self._tried.set()
            self._stopping.wait(AGAIN_S)

    def _watch(self) -> None:
        self._stream = self._etcd.watch(self._prefix, idle_s=IDLE_S)
        if self._stopping.is_set():
            return  # whoever stopped it may not have seen this stream
        for answer in self._stream:
            if answer.get("canceled"):
                raise StoreUnavailable(f"etcd ended the watch: {answer.get('cancel_reason')}")
            if answer.get("created"):
                self._begun()
            elif any(self._is_news(event) for event in answer.get("events", ())):
                self._on_change()

    def _begun(self) -> None:
        if self._tried.is_set():
            self._on_change()  # it is not the first: something may have happened in between
        self._tried.set()
