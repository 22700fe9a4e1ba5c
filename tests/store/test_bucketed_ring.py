"""The ring and its low marks: whatever is due is looked for where it is kept, whatever the clock does."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduling.store.buckets import LATER, RING, Lows, bucket_of, horizon_from, idle_slots, slot_of_bucket
from scheduling.testing.clock import NOON

SECOND = timedelta(seconds=1)
SHARDS = (1, 2, 3)
START = bucket_of(NOON)


def at(bucket: int) -> datetime:
    return NOON + SECOND * (bucket - START)


class Model:
    """Entries as the tables hold them, (shard, bucket, slot), beside the marks of their owner. Those of odd buckets are
    a full tenant's: where they are passed by they are set aside, by shard, from a bucket on.
    """

    def __init__(self) -> None:
        self.lows, self.entries, self.now = Lows(), set[tuple[int, int, int]](), START
        self.aside: dict[int, int] = {}

    def write(self, shard: int, bucket: int, *, is_told: bool = True) -> None:
        slot = slot_of_bucket(bucket) if bucket < bucket_of(horizon_from(at(self.now))) else LATER
        self.entries.add((shard, bucket, slot))
        if is_told:
            self.lows.written(shard, bucket, slot)

    def set_aside(self, shard: int, bucket: int) -> None:
        self.aside[shard] = min(bucket, self.aside.get(shard, bucket))

    def is_aside(self, shard: int, bucket: int, slot: int) -> bool:
        return slot != LATER and bucket % 2 == 1 and self.aside.get(shard, bucket + 1) <= bucket

    def pass_by(self, steps: int) -> None:
        """As a walk does that takes so many steps in a slot."""
        for slot, lows in self.lows.to_read(SHARDS, self.now).items():
            for shard, low in lows.items() if slot != LATER else ():
                buckets = [bucket for of, bucket, of_slot in self.due() if (of, of_slot) == (shard, slot)]
                met = sorted(bucket for bucket in buckets if bucket >= low)[:steps]
                for bucket in met:
                    if bucket % 2 == 1:
                        self.set_aside(shard, bucket)
                ended = met[-1] if len(met) == steps else self.now
                others = [bucket for bucket in met if bucket % 2 == 0]
                self.lows.passed(shard, slot, min([*others, ended]), high=self.now)

    def due(self) -> set[tuple[int, int, int]]:
        return {entry for entry in self.entries if entry[1] <= self.now}

    def found(self) -> set[tuple[int, int, int]]:
        plan = self.lows.to_read(SHARDS, self.now)
        return {
            (shard, bucket, slot)
            for shard, bucket, slot in self.due()
            if (shard in plan.get(slot, {}) and plan[slot][shard] <= bucket) or self.is_aside(shard, bucket, slot)
        }

    def consume(self, share: int) -> None:
        """All that is due is read, but for what is full; of that every ``share``-th entry is left where it is."""
        left = {entry for number, entry in enumerate(sorted(self.due())) if number % share == 0 or entry[1] % 2 == 1}
        lowest: dict[int, int] = {}
        for shard, bucket, slot in self.due():
            if bucket % 2 == 0:
                lowest[shard] = min(bucket, lowest.get(shard, bucket))
            elif slot != LATER:
                self.set_aside(shard, bucket)
        self.lows.consumed(SHARDS, self.now, lowest)
        self.entries -= self.due() - left

    def raise_lows(self) -> None:
        for shard in SHARDS:
            if buckets := [bucket for of, bucket, slot in self.entries if of == shard and slot != LATER]:
                self.lows.left(shard, min(buckets))

    def promote(self) -> None:
        horizon = horizon_from(at(self.now))
        near = {entry for entry in self.entries if entry[2] == LATER and entry[1] < bucket_of(horizon)}
        for shard, bucket, _ in near:
            self.entries.add((shard, bucket, slot_of_bucket(bucket)))
        for shard in SHARDS:
            if buckets := [bucket for of, bucket, _ in near if of == shard]:
                self.lows.moved(shard, min(buckets))
        self.entries -= near
        self.lows.promoted(SHARDS, horizon)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.sampled_from([1, 7, 61, 600, 4000, 9000, -2, -70, -5000])),
        st.tuples(st.just("write"), st.sampled_from(SHARDS), st.integers(-600, 9000)),
        st.tuples(st.just("pass_by"), st.integers(1, 4)),
        st.tuples(st.just("consume"), st.integers(1, 4)),
        st.just(("raise_lows",)),
        st.just(("promote",)),
        st.tuples(st.just("forget"), st.sampled_from(SHARDS)),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_is_due_is_looked_for_where_it_is(steps: list[tuple]) -> None:
    model = Model()
    for shard in SHARDS:  # what another owner left, also long ago
        for bucket in (START - 20_000, START - 30, START + 5):
            model.write(shard, bucket, is_told=False)
    for name, *values in steps:
        match name:
            case "pass":
                model.now += values[0]
            case "write":
                model.write(values[0], model.now + values[1])
            case "forget":
                model.lows.forget(values)
                model.aside.pop(values[0], None)
            case _:
                getattr(model, name)(*values)
        assert model.found() == model.due()


def test_the_minutes_round_now_are_not_idle() -> None:
    idle = idle_slots(NOON)
    busy = {slot_of_bucket(bucket_of(NOON + timedelta(minutes=minute))) for minute in (-1, 0, 1, 2)}
    assert set(idle) == set(range(RING)) - busy


def test_what_the_promoter_moves_late_is_looked_for_in_all_slots_behind_it() -> None:
    lows, minutes = Lows(), (START - 120, START - 60)
    for bucket in minutes:
        lows.passed(1, slot_of_bucket(bucket), START, high=START)
    assert {slot_of_bucket(bucket) for bucket in minutes}.isdisjoint(lows.to_read([1], START))
    lows.moved(1, minutes[0])
    plan = lows.to_read([1], START)
    assert all(plan[slot_of_bucket(bucket)][1] <= bucket for bucket in minutes)
