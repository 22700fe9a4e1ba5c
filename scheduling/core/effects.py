"""What the engine asks the world to do. The node carries effects out, and tells the engine what came of each.

An effect that writes names the epochs under which it may; a store refuses it whole when one of them is stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fairness.core.admission import Request
from fairness.core.exchange import Told
from fairness.core.leases import Wanted
from scheduling.core.fire import Fire, State
from scheduling.core.plans import JobPlan

Epochs = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ReadDue:
    """Answered by ``Engine.due_read``. The ``full`` tenants have enough under way: nothing of theirs is read; of others
    at ``most`` so many.
    """

    shards: frozenset[int]
    until: datetime
    limit: int
    full: frozenset[int] = frozenset()
    most: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """Answered by ``Engine.claimed``."""

    epochs: Epochs
    plans: Sequence[JobPlan]
    looked_at: frozenset[int]  # the shards of the look that found them


@dataclass(frozen=True, slots=True)
class ReadWaiting:
    """Parked fires and retries whose time has come, but for those of ``full`` tenants. Answered by
    ``Engine.waiting_read``.
    """

    shards: frozenset[int]
    now: datetime
    limit: int
    full: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Release:
    """Waiting fires, numbered anew. Answered by ``Engine.released``. ``is_turn``: it is their turn; else a look has
    found that their time has come.
    """

    epochs: Epochs
    fires: Sequence[Fire]
    is_turn: bool = False


@dataclass(frozen=True, slots=True)
class CountPredecessors:
    """Answered by ``Engine.predecessors_counted``."""

    fires: Sequence[Fire]


@dataclass(frozen=True, slots=True)
class Settlement:
    """A claimed fire that is not to be published: ``parked`` until ``wake_at`` (job time), or ``skipped``."""

    fire: Fire
    state: State
    reason: str
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """Answered by ``Engine.settled``."""

    epochs: Epochs
    settlements: Sequence[Settlement]


@dataclass(frozen=True, slots=True)
class CancelRunning:
    """What has begun before these, which wait to take its place, is to stop. Needs no answer: whoever is parked looks
    again.
    """

    epochs: Epochs
    newest: Sequence[Fire]


@dataclass(frozen=True, slots=True)
class Record:
    """Watermarks by shard, as (epoch, seq). Answered by ``Engine.recorded``."""

    epochs: Epochs
    marks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Reap:
    """End the leases of workers that are gone, and the pauses whose time has come. Needs no answer: what it frees is
    found by the next ReadWaiting.
    """

    epochs: Epochs
    now: datetime


@dataclass(frozen=True, slots=True)
class ReadUnstarted:
    """What was published and has not been acquired for ``patience_s``: of each shard's such fires those beyond a number
    (epoch, seq), at most ``limit`` of all. Answered by ``Engine.unstarted_read``.
    """

    after: Mapping[int, tuple[int, int]]
    patience_s: float
    limit: int


@dataclass(frozen=True, slots=True)
class LookAtQueues:
    """Which of the queues of these fires, one of each, hold no message that waits, or are gone? Answered by
    ``Engine.queues_seen``.
    """

    fires: Sequence[Fire]


@dataclass(frozen=True, slots=True)
class SendAgain:
    """Published fires whose messages seem to be gone, numbered anew under the same fence. Answered by
    ``Engine.sent_again``.
    """

    epochs: Epochs
    fires: Sequence[Fire]


@dataclass(frozen=True, slots=True)
class Promote:
    """Move what the coming hour needs (job time) to where it is read fast. Answered by ``Engine.promoted``."""

    epochs: Epochs
    now: datetime


@dataclass(frozen=True, slots=True)
class Expire:
    """Drop history whose time-to-live has passed (job time). One node does it: the owner of shard 0."""

    shards: frozenset[int]
    now: datetime


@dataclass(frozen=True, slots=True)
class Redrive:
    """Bring back the dead letters whose turn it is, whatever the epochs. One node does it: the owner of shard 0. Needs
    no answer.
    """

    now: datetime


@dataclass(frozen=True, slots=True)
class ReadHeld:
    """What these shards, which were just taken over, have with workers or on the way there, and which tenants are held
    there. Answered by ``Engine.held_read``; until then nothing of them is claimed or granted.
    """

    shards: frozenset[int]


@dataclass(frozen=True, slots=True)
class LookAtRuns:
    """Which of these published fires have begun, and which are over? Answered by ``Engine.runs_seen``."""

    fires: Sequence[Fire]


@dataclass(frozen=True, slots=True)
class Hold:
    """These (tenant, shard) are held, since this job time; and those are so no more. Answered by
    ``Engine.holds_written``.
    """

    epochs: Epochs
    begun: Mapping[tuple[int, int], datetime]
    ended: Sequence[tuple[int, int]]


Asked = Sequence[tuple[Fire, Request]]  # of limited tenants, and what is asked for each of them


@dataclass(frozen=True, slots=True)
class Admit:
    """It is their turn, in this order: do limits let them go? Answered by ``Engine.admitted``."""

    asked: Asked


@dataclass(frozen=True, slots=True)
class Lease:
    """Tokens of rates, for fires that are yet to come. Answered by ``Engine.leased``."""

    wanted: Sequence[Wanted]


@dataclass(frozen=True, slots=True)
class LetGo:
    """These were admitted, and their places are free: they are over, or ``unspent``, they did not go after all. Needs
    no answer.
    """

    asked: Asked
    unspent: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """All that is in flight under limits: their places are theirs on. Needs no answer."""

    asked: Asked


@dataclass(frozen=True, slots=True)
class ReadTerms:
    """Some tenant's are not known. Needs no answer but ``Engine.set_terms``, some time."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What this node tells the others of its lanes. Answered by ``Engine.exchanged``."""

    lanes: Sequence[Told]


@dataclass(frozen=True, slots=True)
class Publish:
    """Answered by ``Engine.published``, in any order and any number of pieces."""

    fires: Sequence[Fire]


@dataclass(frozen=True, slots=True)
class TakeAgain:
    """The outcome of a write is unknown: take these shards over again, with a new epoch. Answered by
    ``Engine.taken``.
    """

    shards: frozenset[int]


@dataclass(frozen=True, slots=True)
class HandOver:
    """These shards have drained and are no longer ours: release them, so that another node may have them. Needs no
    answer.
    """

    shards: frozenset[int]


StoreEffect = (
    ReadDue
    | Claim
    | ReadWaiting
    | Release
    | CountPredecessors
    | Settle
    | CancelRunning
    | Record
    | Reap
    | ReadUnstarted
    | SendAgain
    | Promote
    | Expire
    | ReadHeld
    | LookAtRuns
    | Hold
)
LimitsEffect = Admit | Lease | LetGo | Keep  # for whoever asks limits, one after another

Effect = StoreEffect | Publish | LimitsEffect | Exchange | ReadTerms | LookAtQueues | Redrive | TakeAgain | HandOver
