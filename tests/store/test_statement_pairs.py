"""Every two statements of the stores that may meet, on two real connections: one stopped at its commit, then the other.

The simulation cannot show this, for its store is atomic. For each pair the table (``pair_table``) says what becomes of
the second: it goes on, passes over what the first holds, waits for it, or is refused. Whatever it says, neither is a
deadlock's victim, each is told the truth, no rule of the rows is broken; and when another node has taken the shard over
and its workers have run what they may, nothing is left and nothing lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from pytest_django import DjangoDbBlocker

from scheduling.core.errors import InvalidField, LeaseLost, StaleEpoch
from scheduling.store import postgres
from scheduling.store.ledger_port import Refused
from scheduling.store.port import StoreUnavailable
from tests import committed
from tests.store.pair_actors import ACTORS, Actor
from tests.store.pair_checks import broken, left_at_rest, vanished
from tests.store.pair_stage import Ended, Stage, Stop, Write
from tests.store.pair_table import CROSSING, CUT, Manner, expected, pairs
from tests.store.pair_world import Kind, World, make, put_back

REFUSALS = (StaleEpoch, LeaseLost, InvalidField)
Keys = set[tuple[str, str]]


@dataclass(frozen=True)
class Meeting:
    """What two actors did to a world, and what each was told."""

    world: World
    first: Ended
    second: Ended
    writes: Sequence[Write]

    def of(self, seat: str) -> list[Write]:
        return [write for write in self.writes if write.seat == seat]

    def keys(self, seat: str) -> Keys:
        return {write.key for write in self.of(seat)}


class Meetings:
    """The stage and the worlds, each made when it is asked for first."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._worlds: dict[Kind, World] = {}
        self._alone: dict[tuple[Kind, str], Keys] = {}
        self._present: Kind | None = None

    def meet(self, kind: Kind, first: Actor, second: Actor, *, stop: Stop = Stop.COMMIT, cut: bool = False) -> Meeting:
        world = self._world(kind)

        one, two = self.stage.meet(
            lambda seat: first.act(world, seat), lambda seat: second.act(world, seat), stop=stop, cut=cut
        )
        return Meeting(world, one, two, self.stage.writes())

    def alone(self, kind: Kind, actor: Actor) -> Keys:
        """Which rows it writes when nobody else is there."""
        if (kind, actor.name) not in self._alone:
            world = self._world(kind)
            ended = self.stage.alone(lambda seat: actor.act(world, seat))
            assert ended.error is None or isinstance(ended.error, REFUSALS), ended.error
            self._alone[kind, actor.name] = {write.key for write in self.stage.writes()}
        return self._alone[kind, actor.name]

    def _world(self, kind: Kind) -> World:
        if kind not in self._worlds:
            self.stage.session.execute(committed.CLEAN.encode())
            self._worlds[kind] = make(kind, self.stage)
        if kind is not self._present:
            self.stage.session.execute("DELETE FROM scheduling_entry")  # of another kind of world
            self._present = kind
        put_back(self._worlds[kind], self.stage)
        return self._worlds[kind]


@pytest.fixture(scope="module")
def meetings(test_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Meetings]:
    with django_db_blocker.unblock(), Stage() as stage, pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "BLOCKED_S", 60.0)  # the take-over is not to end the first: we do
        yield Meetings(stage)
        stage.session.execute(committed.CLEAN.encode())


def told_the_truth(actor: Actor, ended: Ended, meeting: Meeting, seat: str) -> bool:
    """I10, I3: what it was told is what it wrote; refused by its epoch or its fence it wrote nothing."""
    if isinstance(ended.error, StaleEpoch | LeaseLost):
        return meeting.of(seat) == []
    if ended.error is not None:
        return isinstance(ended.error, InvalidField)
    return isinstance(ended.answer, Refused) or actor.holds(meeting.world, ended.answer, meeting.of(seat))


def manner(ended: Ended, *, is_all: bool) -> Manner:
    if isinstance(ended.error, REFUSALS) or isinstance(ended.answer, Refused):
        return Manner.IS_REFUSED
    if ended.waited:
        return Manner.WAITS if is_all else Manner.FINDS_LESS
    return Manner.GOES_ON if is_all else Manner.PASSES_OVER


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [pytest.param(*pair, id=f"{pair[0]}: {pair[2].name} while {pair[1].name} is open") for pair in pairs()],
)
def test_the_second_does_as_the_table_says_and_no_rule_is_broken(
    meetings: Meetings, kind: Kind, first: Actor, second: Actor
) -> None:
    alone = meetings.alone(kind, first), meetings.alone(kind, second)
    meeting = meetings.meet(kind, first, second)
    is_all = alone[1] <= meeting.keys("second")
    assert manner(meeting.second, is_all=is_all) is expected(kind, first, second), meeting.second
    assert alone[0] <= meeting.keys("first")
    check(meetings, meeting, first, second)


def check(meetings: Meetings, meeting: Meeting, first: Actor, second: Actor) -> None:
    assert told_the_truth(first, meeting.first, meeting, "first"), meeting.first
    assert told_the_truth(second, meeting.second, meeting, "second"), meeting.second
    assert broken(meeting.world, meetings.stage, meeting.writes) == []
    assert vanished(meeting.writes) == []
    assert left_at_rest(meeting.world, meetings.stage) == []


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        pytest.param(*pair, id=f"{pair[0]}: {pair[2].name} while {pair[1].name} is cut off")
        for pair in pairs(CUT)
        if expected(*pair) is not Manner.GOES_ON
    ],
)
def test_what_is_cut_off_at_its_commit_has_written_nothing_and_the_second_does_all(
    meetings: Meetings, kind: Kind, first: Actor, second: Actor
) -> None:
    """Its node hears that nobody knows, and takes its shard over again."""
    alone = meetings.alone(kind, second)
    meeting = meetings.meet(kind, first, second, cut=True)
    assert isinstance(meeting.first.error, StoreUnavailable)
    assert meeting.of("first") == []
    in_the_way = expected(kind, first, second)
    assert meeting.second.waited == (in_the_way is not Manner.PASSES_OVER)
    assert alone <= meeting.keys("second") or in_the_way is Manner.PASSES_OVER
    assert told_the_truth(second, meeting.second, meeting, "second"), meeting.second
    assert broken(meeting.world, meetings.stage, meeting.writes) == []
    assert left_at_rest(meeting.world, meetings.stage) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(ACTORS[first], ACTORS[second], id=f"{second} while {first} has locked its first fire")
        for first, second in CROSSING
    ],
)
def test_who_locks_many_fires_does_so_in_the_order_of_all_so_that_none_is_a_victim(
    meetings: Meetings, first: Actor, second: Actor
) -> None:
    meeting = meetings.meet(Kind.CROSSED, first, second, stop=Stop.FIRST_ROW)
    check(meetings, meeting, first, second)
