"""Tenant and lane → the queue that is in use for them, by rows in Postgres; what a publisher asks for every message.

::

    queue_for ──known──────────────────────────────▶ its own queue, or the emptier of its two shared ones
        └──unknown──▶ a row is assigned ──▶ its own while fewer than ``dedicated`` lanes have one, else shared
                           └──the database does not answer──▶ a shared one that has a row, else its own name

A thread reads the rows each second, brings the time of last use of those that are used up to date each minute, and
gives the busiest of those that share a queue of their own when there is room.

Invariants:

- a queue that is published to has a row that is in use: before the first message, or, where the database does not
  answer, or a janitor has just retired the row, as soon as it does again (``owed``). Workers consume the rows; so what
  is published is consumed, sooner or later.
- a tenant's lane leaves its own queue only by a janitor, who retires what is empty and was not used for a day; messages
  that are left in a shared queue are consumed there.
- ``queue_for`` waits for the database at most ``patience_s`` once, and then no more until that has answered again.

Between its two shared queues a tenant takes the one to which this node sent less lately. Does not do: declare anything;
order across the two.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from threading import Event, Lock, Thread
from typing import NamedTuple

from fairness.queue_rows import Connect, QueueRow, QueueRows, QueueRowsUnavailable
from fairness.queues import QueuePlan, QueueSpec

log = logging.getLogger(__name__)

REFRESH_S = 1.0
PATIENCE_S = 0.5
USED_S = 60.0  # between two updates of the time of last use
LATELY_S = 90.0  # a queue that was used so shortly ago is brought back if its row has gone
MOVES = 5  # tenants that may get a queue of their own in one refresh: the others are still served
FORGETS = 0.5  # what was sent a second ago counts so much now
FORGOTTEN = FORGETS**60


class Key(NamedTuple):
    tenant_id: int
    lane: str


class _Bucket:
    """A shared queue. ``load``: what was sent to it lately."""

    __slots__ = ("is_used", "lane", "load", "spec")

    def __init__(self, spec: QueueSpec, lane: str) -> None:
        self.spec, self.lane, self.load, self.is_used = spec, lane, 0.0, False


class _Place:
    """Where a tenant's lane is published: to its ``own``, or to one of ``buckets``; there may be many of these, so they
    hold no more than that.
    """

    __slots__ = ("buckets", "load", "own", "sent", "tenant")

    def __init__(
        self, tenant: str, *, own: QueueSpec | None = None, buckets: tuple[_Bucket, _Bucket] | None = None
    ) -> None:
        self.tenant, self.own, self.buckets = tenant, own, buckets  # one of the two
        self.sent = 0  # since the last refresh
        self.load = 0.0


class QueueMap:
    """One for a process. ``connect`` makes a connection with autocommit; ``dedicated`` and ``shared`` are the settings.

    Its thread starts with the first miss. ``close`` ends it; what is asked afterwards is answered without a row.
    """

    def __init__(
        self,
        plan: QueuePlan,
        connect: Connect,
        *,
        dedicated: int,
        shared: int,
        refresh_s: float = REFRESH_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._plan, self._dedicated, self._shared = plan, dedicated, shared
        self._refresh_s, self._patience_s = refresh_s, patience_s
        self._rows = QueueRows(connect)
        self._places: dict[Key | tuple[int, str], _Place] = {}
        self._buckets: dict[str, _Bucket] = {}
        self._in_use: dict[str, QueueRow] = {}  # replaced as a whole by the thread
        self._owed: dict[str, QueueRow] = {}  # published to without a row in use
        self._used_at: dict[str, tuple[QueueRow, float]] = {}  # monotonic; the thread's
        self._noted_at = time.monotonic()  # times of last use were written
        self._own: frozenset[tuple[int, str]] = frozenset()  # lanes with queues of their own, retired or not
        self._is_full = False  # there are as many as there may be
        self._is_blind = False
        self._is_closed = False
        self._lock = Lock()  # guards _places while it changes size, _asked, and the start of the thread
        self._asked: dict[Key, tuple[str, Event]] = {}
        self._wake = Event()
        self._known = Event()  # the rows have been read once
        self._thread: Thread | None = None

    def queue_for(self, tenant: str, tenant_id: int, lane: str) -> QueueSpec:
        """Where a message is to be published. Raises ValueError for a slug or a lane that makes no queue's name."""
        place = self._places.get((tenant_id, lane))
        if place is None:
            return self._miss(tenant, Key(tenant_id, str(lane)))
        place.sent += 1
        if (own := place.own) is not None:
            return own
        assert place.buckets is not None
        first, second = place.buckets
        bucket = second if second.load < first.load else first
        bucket.load += 1
        bucket.is_used = True
        return bucket.spec

    def queues_of(self, tenant: str, tenant_id: int, lane: str) -> list[str]:
        """The queues in which a message of theirs may wait for a worker: those in use. All that there could be while
        the rows are not known.
        """
        if not self._known.is_set():
            self._start()
            self._known.wait(self._patience_s)
        if not self._known.is_set():
            shared = self._plan.shared(tenant, lane, count=self._shared)
            return list({spec.name: None for spec in (self._plan.queue(tenant, lane), *shared)})
        return [
            row.name
            for row in self._in_use.values()
            if row.lane == lane
            and (
                row.tenant_id == tenant_id
                or (row.tenant_id is None and self._plan.owner_of(row.name, tenant) == tenant)
            )
        ]

    def missing(self, name: str) -> None:
        """The broker has no such queue: somebody has retired it, or it was lost. Returns at once; it will have a row
        again if it is used.
        """
        log.info("the broker had no queue %s; it is declared anew", name)
        self._wake.set()

    def close(self, timeout_s: float = 1.0) -> None:
        """Note what was used, and end. May be called again, and without a start."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(timeout_s)

    # -- a miss, in a publisher's thread ------------------------------------------------------------------------

    def _miss(self, tenant: str, key: Key) -> QueueSpec:
        self._plan.queue_name(tenant, key.lane)  # raises before anybody else stumbles over it
        with self._lock:
            if self._is_closed or self._is_blind:
                return self._without_a_row(tenant, key)
            if self._is_full and key not in self._own and (buckets := self._shared_ones(tenant, key)):
                return self._first_use(tenant, key, buckets)
            _, done = self._asked.setdefault(key, (tenant, Event()))
        self._start()
        self._wake.set()
        if done.wait(self._patience_s) and key in self._places:
            return self.queue_for(tenant, *key)
        with self._lock:
            if not done.is_set():
                self._blinded("it did not answer in time")
            return self._without_a_row(tenant, key)

    def _shared_ones(self, tenant: str, key: Key) -> tuple[_Bucket, _Bucket] | None:
        """Its two; None where one has no row yet."""
        first, second = self._plan.shared(tenant, key.lane, count=self._shared)
        if first.name in self._in_use and second.name in self._in_use:
            return self._bucket(first, key.lane), self._bucket(second, key.lane)
        return None

    def _bucket(self, spec: QueueSpec, lane: str) -> _Bucket:
        return self._buckets.setdefault(spec.name, _Bucket(spec, lane))

    def _first_use(self, tenant: str, key: Key, buckets: tuple[_Bucket, _Bucket]) -> QueueSpec:
        self._places[key] = _Place(tenant, buckets=buckets)
        return self.queue_for(tenant, *key)

    def _without_a_row(self, tenant: str, key: Key) -> QueueSpec:
        """What certainly is consumed, else what will be once there is a row."""
        for spec in self._plan.shared(tenant, key.lane, count=self._shared):
            if spec.name in self._in_use:
                self._owed[spec.name] = QueueRow(spec.name, None, key.lane)
                return spec
        own = self._plan.queue(tenant, key.lane)
        self._owed[own.name] = QueueRow(own.name, key.tenant_id, key.lane)
        return own

    def _blinded(self, problem: object) -> None:
        if not self._is_blind:
            log.warning("which queues are in use cannot be read; new tenants share until it can: %s", problem)
        self._is_blind = True

    # -- the thread ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_closed:
                self._thread = Thread(target=self._run, name="queue map", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._is_closed:
            self._turn()
            self._wake.wait(self._refresh_s)
            self._wake.clear()
        self._turn()
        self._rows.close()

    def _turn(self) -> None:
        with self._lock:
            asked, self._asked = self._asked, {}
        try:
            self._refresh()
            self._answer({key: tenant for key, (tenant, _) in asked.items() if key not in self._places})
            self._is_blind = False
        except QueueRowsUnavailable as problem:
            self._blinded(problem)
        except Exception as problem:
            log.exception("the queues in use could not be brought up to date")
            self._blinded(problem)
        for _, done in asked.values():
            done.set()

    def _refresh(self) -> None:
        now_s = time.monotonic()
        self._note_use(now_s)
        rows, self._own = self._rows.read()
        in_use = {row.name: row for row in rows}
        lost = {
            name: row for name, (row, at_s) in self._used_at.items() if name not in in_use and now_s - at_s < LATELY_S
        }
        owed = dict(self._owed)
        self._bring_back({name: row for name, row in (lost | owed).items() if name not in in_use}, in_use)
        for name in owed:
            self._owed.pop(name, None)
        if now_s - self._noted_at >= USED_S or self._is_closed:
            self._rows.use([row for row, at_s in self._used_at.values() if at_s >= self._noted_at])
            self._noted_at = now_s
            self._used_at = {name: use for name, use in self._used_at.items() if now_s - use[1] < LATELY_S}
        self._adopt(in_use)
        self._is_full = len(self._own) >= self._dedicated
        self._known.set()
        if not self._is_full and not self._is_closed:
            self._move_busiest(self._dedicated - len(self._own))

    def _bring_back(self, lost: dict[str, QueueRow], in_use: dict[str, QueueRow]) -> None:
        if not lost:
            return
        back = self._rows.use(list(lost.values()))
        log.info("in use again: %s", ", ".join(sorted(back)) or "none, their tenants are gone")
        in_use |= {name: lost[name] for name in back}
        for name in lost.keys() - back:
            self._used_at.pop(name, None)

    def _note_use(self, now_s: float) -> None:
        """Which queues were published to since the last time, and how busy who shares one was."""
        with self._lock:
            places = list(self._places.items())
        for (tenant_id, lane), place in places:
            sent, place.sent = place.sent, 0
            if place.own is not None:
                if sent:
                    self._used_at[place.own.name] = QueueRow(place.own.name, tenant_id, lane), now_s
            else:
                place.load = place.load * FORGETS + sent
        for bucket in list(self._buckets.values()):
            bucket.load *= FORGETS
            if bucket.is_used:
                bucket.is_used = False
                self._used_at[bucket.spec.name] = QueueRow(bucket.spec.name, None, bucket.lane), now_s

    def _adopt(self, in_use: dict[str, QueueRow]) -> None:
        """The rows are what holds: who has a queue of its own takes it, who has none any more is asked for anew. Who
        shares, and was not seen for a minute, is forgotten: that costs nothing, and there may be many.
        """
        with self._lock:
            self._in_use = in_use
            for key, place in list(self._places.items()):
                if place.own is not None:
                    is_gone = place.own.name not in in_use
                    if is_gone and place.sent:  # since ``_note_use``
                        self._owed[place.own.name] = QueueRow(place.own.name, *key)
                else:
                    is_gone = place.load < FORGOTTEN or any(b.spec.name not in in_use for b in place.buckets or ())
                if is_gone:
                    del self._places[key]
            for row in in_use.values():
                if row.tenant_id is not None:
                    self._give_own(row)

    def _give_own(self, row: QueueRow) -> None:
        owner = self._plan.owner(row.name)
        if owner is None or row.tenant_id is None or row.name != self._plan.queue(*owner).name:
            return  # of another version: it drains
        place = self._places.get((row.tenant_id, row.lane))
        if place is None or place.own is None:
            self._places[Key(row.tenant_id, row.lane)] = _Place(owner[0], own=self._plan.queue(*owner))

    def _move_busiest(self, room: int) -> None:
        with self._lock:
            sharing = [(place.load, key, place) for key, place in self._places.items() if place.own is None]
        sharing.sort(key=lambda one: -one[0])
        moved = sharing[: min(room, MOVES)]
        if moved:
            self._assign([QueueRow(self._plan.queue_name(place.tenant, key[1]), *key) for _, key, place in moved])

    def _answer(self, asked: dict[Key, str]) -> None:
        """Queues of their own as far as there are, and shared ones for the others."""
        rows = {key: QueueRow(self._plan.queue_name(tenant, key.lane), *key) for key, tenant in asked.items()}
        fit = [row for key, row in rows.items() if key in self._own or not self._is_full]
        taken = self._assign(fit) if fit else set()
        others = {key: asked[key] for key, row in rows.items() if row.name not in taken}
        self._share(others)

    def _assign(self, rows: Collection[QueueRow]) -> set[str]:
        taken, number = self._rows.assign(list(rows), dedicated=self._dedicated)
        self._is_full = number >= self._dedicated
        with self._lock:
            for row in rows:
                if row.name in taken:
                    self._in_use = self._in_use | {row.name: row}
                    self._give_own(row)
        if taken:
            log.info("in use: %s", ", ".join(sorted(taken)))
        return taken

    def _share(self, asked: dict[Key, str]) -> None:
        needed = {
            spec.name: QueueRow(spec.name, None, key.lane)
            for key, tenant in asked.items()
            for spec in self._plan.shared(tenant, key.lane, count=self._shared)
            if spec.name not in self._in_use
        }
        made = self._rows.use(list(needed.values()))
        with self._lock:
            self._in_use = self._in_use | {name: needed[name] for name in made}
            for key, tenant in asked.items():
                if buckets := self._shared_ones(tenant, key):
                    place = self._places[key] = _Place(tenant, buckets=buckets)
                    place.load = 1.0  # it is about to be used
