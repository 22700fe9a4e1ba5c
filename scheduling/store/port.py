"""The port to the schedule's store, as the owner of shards uses it. Every call names its shards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from scheduling.core.due import Due
from scheduling.core.effects import Epochs, ReadDue, Settlement
from scheduling.core.errors import FairbeatError
from scheduling.core.fire import Fire
from scheduling.core.lost_lease import LostRun
from scheduling.core.overlap import Predecessors
from scheduling.core.plans import JobPlan
from scheduling.core.runs import Held, RunSeen
from scheduling.core.unstarted import Unstarted
from scheduling.core.waiting import Waiting


class StoreUnavailable(FairbeatError):
    """The store did not answer, or its answer was lost: whether a write took place is unknown."""


class ScheduleStore(Protocol):
    """Writes under an epoch are one transaction each and raise StaleEpoch, having changed nothing, or StoreUnavailable,
    when nobody knows what was changed. Job times are aware UTC.
    """

    def take_over(self, shards: Collection[int], node: str) -> tuple[Epochs, list[Fire]]:
        """Raise these shards' epochs, and recover what is claimed beyond their watermarks under a higher fence. What
        waited for its turn with the last owner is due now.
        """

    def due(self, look: ReadDue) -> Due:
        """Of the jobs that are due as many as it asks for, in fair turns of tenants. Of its ``full`` ones nothing is
        read, however much is due.
        """

    def claim(self, epochs: Epochs, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        """Advance the jobs and insert their fires; returns the fences of those that are claimed now."""

    def waiting(
        self, shards: Collection[int], *, now: datetime, limit: int, full: frozenset[int] = frozenset()
    ) -> Waiting:
        """Parked fires and retries whose time has come; in fair turns of tenants, and of their first attempts and
        retries. Where there are none, when the next comes. Of ``full`` tenants nothing is told.
        """

    def release(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        """Make waiting fires claimed under their new numbers; returns those that still waited."""

    def held(self, shards: Collection[int]) -> Held:
        """What these have with workers or on the way there, but for what is never acquired; and their holds."""

    def runs(self, fires: Sequence[Fire]) -> list[RunSeen]:
        """Which of these have begun, and which are over; the others are left out."""

    def hold(
        self, epochs: Epochs, *, begun: Mapping[tuple[int, int], datetime], ended: Sequence[tuple[int, int]]
    ) -> None:
        """Write since when (tenant, shard) are held, and that others are so no more."""

    def predecessors(self, fires: Sequence[Fire]) -> dict[UUID, Predecessors]:
        """Unfinished fires of the same jobs; a fire without any is left out."""

    def settle(self, epochs: Epochs, settlements: Sequence[Settlement]) -> None:
        """Park or skip claimed fires."""

    def record(self, epochs: Epochs, marks: Mapping[int, int]) -> None:
        """Write the shards' watermarks."""

    def cancel_running(self, epochs: Epochs, newest: Sequence[Fire]) -> list[LostRun]:
        """Ask the runs that began before these, of the same jobs, to stop; what waits for a retry gets none, and is
        returned.
        """

    def unstarted(self, after: Mapping[int, tuple[int, int]], *, patience: timedelta, limit: int) -> Unstarted:
        """A piece of the walk over fires that were published longer than ``patience`` (real time) ago and are not
        acquired, beyond these numbers of each shard; about ``limit`` rows are looked at.
        """

    def send_again(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        """Number published fires anew under the same fence; returns those that nobody has acquired."""

    def reap(self, epochs: Epochs, *, now: datetime) -> list[LostRun]:
        """End runs whose lease is out: retry, or dead. And write the end of pauses that are over."""

    def promote(self, epochs: Epochs, *, now: datetime) -> bool:
        """Move what the coming hour needs to where it is read fast; True: there is more of it."""

    def expire(self, shards: Collection[int], *, now: datetime) -> list[str]:
        """Drop history whose time-to-live has passed on the job clock; returns what was dropped."""

    def report(self, node: str, *, fires: int, latency: Mapping[str, Any]) -> None:
        """Write what people want to see of a node: fires confirmed since its start, and their latency."""

    def close(self) -> None:
        """Give up the connection; the next call makes a new one."""
