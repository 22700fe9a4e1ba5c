"""Where faults are played: the services, the fleet and the monitor; and one fault as it is carried out there.

::

    warm up ──▶ fault ──▶ heal ──▶ recovered            at most LONGEST_S in all
                  │                   every shard is owned by a node that lives, and no fire is late
                  └──▶ taken over     (a node that is gone has nothing any more)
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from django.db import connection

from scheduling.models import JobClock
from tests.chaos.deeds import Deeds
from tests.chaos.fleet import Fleet, Host, NodeHost
from tests.chaos.monitor import LATE_S, Look, Monitor
from tests.chaos.order import Injection
from tests.chaos.services import Services

LONGEST_S = 12.0
WARM_UP_S = 0.5
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Stage:
    services: Services
    fleet: Fleet
    monitor: Monitor
    load_ends_at: datetime
    deeds: Deeds = field(default_factory=Deeds)


@dataclass(slots=True)
class Act:
    """One injection on its way. Its scenario calls ``heals`` when the fault is over, and then ``recovers``."""

    stage: Stage
    injection: Injection
    rng: Random = field(init=False)
    began: datetime = field(init=False)
    ended: datetime = field(init=False)
    until: float = field(init=False)
    recovery_s: float | None = None
    takeover_s: float | None = None
    note: str = ""
    _healed_at: float = 0.0

    def __post_init__(self) -> None:
        self.rng = Random(self.injection.seed)
        self.began, self.until = datetime.now(UTC), time.monotonic() + LONGEST_S

    @property
    def fleet(self) -> Fleet:
        return self.stage.fleet

    @property
    def services(self) -> Services:
        return self.stage.services

    @property
    def deeds(self) -> Deeds:
        return self.stage.deeds

    def now(self) -> datetime:
        """Job time."""
        return JobClock.objects.now()

    def leaves_database(self) -> None:
        """The next fault would break Django's connection."""
        connection.close()

    def pick(self, hosts: list[Any]) -> Any:
        return self.rng.choice(hosts)

    def lasts(self, seconds: float, *, since: float | None = None) -> None:
        """The fault goes on until so long after ``since`` (now); meanwhile what ends is started again."""
        until = (time.monotonic() if since is None else since) + seconds
        while (left_s := until - time.monotonic()) > 0:
            self.fleet.revive()
            time.sleep(min(left_s, 0.1))

    def joins(self, host: NodeHost, *, spare_s: float) -> None:
        """Wait until this node owns a shard, or only so much of the fault's time is left."""
        self.stage.monitor.wait(
            lambda look: host.id in look.owners, until=self.until - spare_s, meanwhile=self.fleet.revive
        )

    def is_taken_over(self, *, since: float) -> None:
        """Wait until the nodes that live own every shard; ``since`` is when another one was gone."""
        look = self._wait(lambda look: look.is_owned_by(self.fleet.living()))
        self.takeover_s = None if look is None else look.at - since
        if look is None:
            self.note = f"not taken over within {time.monotonic() - since:.1f} s"

    def heals(self, *, at: float | None = None) -> None:
        """The fault is over; ``at`` where that was some time ago."""
        self._healed_at = time.monotonic() if at is None else at

    def network_heals(self, *hosts: Host) -> None:
        for host in hosts:
            host.mend()
        self.heals()
        self.recovers()

    def recovers(self) -> None:
        """Wait until every shard has an owner that lives and nothing is late."""
        look = self._wait(lambda look: look.is_owned_by(self.fleet.living()) and look.late_s < LATE_S)
        self.recovery_s = None if look is None else max(0.0, look.at - self._healed_at)

    def ends(self) -> None:
        """Undo whatever is left of the fault, and let the fleet be whole again, within what is left of the time."""
        self.fleet.restore()
        self._wait(lambda look: look.is_owned_by(self.fleet.living()) and look.late_s < LATE_S)
        self.ended = datetime.now(UTC)

    def _wait(self, is_so: Any) -> Look | None:
        return self.stage.monitor.wait(is_so, until=self.until, meanwhile=self.fleet.revive)
