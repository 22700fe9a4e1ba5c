"""Identifiers of jobs and their shards: one at a time, and many at once."""

from __future__ import annotations

import time
from functools import reduce
from operator import and_, or_
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.identity import shard_of, shards_of, uuid7, uuid7s

COUNT = 500  # in as many every bit that is drawn has been both


def drawn(ids: list[UUID]) -> int:
    """The bits behind the milliseconds that differ among them."""
    numbers = [each.int for each in ids]
    return (reduce(or_, numbers) & ~reduce(and_, numbers)) & (1 << 80) - 1


def test_identifiers_of_jobs_are_of_version_7_with_74_random_bits_however_many_are_made_at_once() -> None:
    before = time.time_ns() // 1_000_000
    at_once, singly = [UUID(bytes=each) for each in uuid7s(COUNT)], [uuid7() for _ in range(COUNT)]
    for ids in (at_once, singly):
        assert len(set(ids)) == COUNT
        assert {(each.version, each.variant) for each in ids} == {(7, RFC_4122)}
        assert drawn(ids) == 0xFFF << 64 | (1 << 62) - 1
        assert all(before <= each.int >> 80 <= time.time_ns() // 1_000_000 for each in ids)
    assert uuid7s(0) == []


def test_identifiers_that_are_made_at_once_ascend() -> None:
    ids = uuid7s(COUNT)
    assert ids == sorted(ids)


@given(st.lists(st.uuids(), max_size=5), st.integers(1, 1024))
def test_a_job_has_the_shard_of_its_last_random_bits_alone_or_among_many(ids: list[UUID], shards: int) -> None:
    expected = [(each.int & 0xFFFF_FFFF) % shards for each in ids]
    assert shards_of([each.bytes for each in ids], shards) == [shard_of(each, shards) for each in ids] == expected


def test_jobs_that_are_made_together_spread_over_the_shards() -> None:
    assert set(shards_of(uuid7s(2000), 64)) == set(range(64))
