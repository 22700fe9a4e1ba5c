from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.sharding import assign

groups_or_none = st.none() | st.integers(1, 70)
names = st.text(min_size=1, max_size=12)
fleets = st.dictionaries(names, st.floats(0.1, 50), min_size=1, max_size=6)


@given(st.integers(0, 40), fleets, groups_or_none)
def test_every_shard_has_exactly_one_owner(shards: int, members: dict[str, float], groups: int | None) -> None:
    owned = assign(shards, members, groups=groups)
    assert owned.keys() == members.keys()
    assert sorted(shard for mine in owned.values() for shard in mine) == list(range(shards))


@given(fleets, st.data(), groups_or_none)
def test_a_member_that_leaves_moves_its_own_shards_only(
    members: dict[str, float], data: st.DataObject, groups: int | None
) -> None:
    leaving = data.draw(st.sampled_from(sorted(members)))
    before = assign(64, members, groups=groups)
    after = assign(64, {member: weight for member, weight in members.items() if member != leaving}, groups=groups)
    for member, mine in after.items():
        assert before[member] <= mine


@given(fleets, names, st.floats(0.1, 50), groups_or_none)
def test_a_member_that_joins_only_takes(
    members: dict[str, float], joining: str, weight: float, groups: int | None
) -> None:
    before = assign(64, {member: weight for member, weight in members.items() if member != joining}, groups=groups)
    after = assign(64, members | {joining: weight}, groups=groups)
    for member, mine in before.items():
        assert after[member] <= mine


@given(fleets, st.data(), st.floats(1.01, 10))
def test_a_member_that_gains_weight_gives_nothing_away(
    members: dict[str, float], data: st.DataObject, factor: float
) -> None:
    gaining = data.draw(st.sampled_from(sorted(members)))
    before = assign(64, members)
    after = assign(64, members | {gaining: members[gaining] * factor})
    assert before[gaining] <= after[gaining]


@given(fleets)
def test_the_order_of_the_members_does_not_matter(members: dict[str, float]) -> None:
    assert assign(64, members) == assign(64, dict(reversed(members.items())))


def test_the_answer_is_the_same_in_every_process_and_version() -> None:
    assert assign(12, {"node-a": 1, "node-b": 1, "node-c": 2}) == {
        "node-a": frozenset({0, 2, 8, 10}),
        "node-b": frozenset({}),
        "node-c": frozenset({1, 3, 4, 5, 6, 7, 9, 11}),
    }


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 2, 3, 4), (1, 9), (0.5, 0.25)])
def test_shares_follow_weights(weights: tuple[float, ...]) -> None:
    shards, total = 8192, sum(weights)
    members = {f"node-{number}": weight for number, weight in enumerate(weights)}
    for member, mine in assign(shards, members).items():
        share = members[member] / total
        deviation = (shards * share * (1 - share)) ** 0.5
        assert abs(len(mine) - shards * share) < 4 * deviation


@given(fleets, st.integers(1, 70))
def test_the_shards_of_a_group_have_one_owner(members: dict[str, float], groups: int) -> None:
    owned = assign(64, members, groups=groups)
    owner = {shard: member for member, mine in owned.items() for shard in mine}
    assert all(owner[shard] == owner[shard % groups] for shard in range(64))


@given(fleets)
def test_with_one_group_one_member_owns_all_and_the_others_stand_by(members: dict[str, float]) -> None:
    assert sorted(len(mine) for mine in assign(64, members, groups=1).values()) == [0] * (len(members) - 1) + [64]


def test_without_members_nobody_owns_anything() -> None:
    assert assign(64, {}) == {}


@pytest.mark.parametrize("weight", [0, -1, inf, nan])
def test_a_weight_that_is_not_a_finite_positive_number_is_refused(weight: float) -> None:
    with pytest.raises(InvalidField, match=f"weight of b {weight}: is not a finite number above 0"):
        assign(64, {"a": 1, "b": weight})


def test_a_negative_number_of_shards_and_less_than_one_group_are_refused() -> None:
    with pytest.raises(InvalidField, match="shards -1: is negative"):
        assign(-1, {"a": 1})
    with pytest.raises(InvalidField, match="groups 0: is below 1"):
        assign(64, {"a": 1}, groups=0)
