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
    """Entries as the tables hold them, (shard, bucket, slot), beside the marks of their owner."""

    def __init__(self) -> None:
        self.lows, self.entries, self.now = Lows(), set[tuple[int, int, int]](), START

    def write(self, shard: int, bucket: int, *, is_told: bool = True) -> None:
        slot = slot_of_bucket(bucket) if bucket < bucket_of(horizon_from(at(self.now))) else LATER
        self.entries.add((shard, bucket, slot))
        if is_told:
            self.lows.written(shard, bucket, slot)

    def due(self) -> set[tuple[int, int, int]]:
        return {entry for entry in self.entries if entry[1] <= self.now}

    def found(self) -> set[tuple[int, int, int]]:
        plan = self.lows.to_read(SHARDS, self.now)
        return {
            (shard, bucket, slot)
            for shard, bucket, slot in self.due()
            if shard in plan.get(slot, {}) and plan[slot][shard] <= bucket
        }

    def consume(self, share: int) -> None:
        """All that is due is read; of that every ``share``-th entry is left where it is."""
        left = {entry for number, entry in enumerate(sorted(self.due())) if number % share == 0}
        lowest: dict[int, int] = {}
        for shard, bucket, _ in self.due():
            lowest[shard] = min(bucket, lowest.get(shard, bucket))
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
            self.lows.written(shard, bucket, slot_of_bucket(bucket))
        self.entries -= near
        self.lows.promoted(SHARDS, horizon)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.sampled_from([1, 7, 61, 600, 4000, 9000, -2, -70, -5000])),
        st.tuples(st.just("write"), st.sampled_from(SHARDS), st.integers(0, 9000)),
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
            case _:
                getattr(model, name)(*values)
        assert model.found() == model.due()


def test_the_minutes_round_now_are_not_idle() -> None:
    idle = idle_slots(NOON)
    busy = {slot_of_bucket(bucket_of(NOON + timedelta(minutes=minute))) for minute in (-1, 0, 1, 2)}
    assert set(idle) == set(range(RING)) - busy
