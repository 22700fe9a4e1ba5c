from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.jitter import jittered

JOB = UUID("0192f0c1-2345-7abc-8def-0123456789ab")
NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_the_same_occurrence_fires_at_the_same_instant_on_every_node_and_for_ever():
    assert jittered(JOB, NINE, 10 * MINUTE, None) == datetime(2026, 1, 1, 9, 0, 55, 250503, tzinfo=UTC)


def test_without_jitter_it_fires_when_it_is_scheduled():
    assert jittered(JOB, NINE, timedelta(0), NINE + MINUTE) == NINE


def test_jobs_and_occurrences_spread_over_the_whole_of_it():
    jobs = [jittered(UUID(int=number), NINE, 10 * MINUTE, None) - NINE for number in range(1000)]
    of_one = [jittered(JOB, NINE + number * MINUTE, MINUTE, None) - NINE - number * MINUTE for number in range(1000)]
    for spread, most in ((jobs, 10 * MINUTE), (of_one, MINUTE)):
        tenths = [sum(1 for late in spread if late * 10 // most == tenth) for tenth in range(10)]
        assert min(tenths) > 60, tenths


@settings(max_examples=200, deadline=None)
@given(st.uuids(), st.integers(1, 10**10), st.one_of(st.none(), st.integers(1, 10**10)))
def test_it_stays_within_the_jitter_and_before_the_next_occurrence(job, jitter_us, gap_us):
    jitter = timedelta(microseconds=jitter_us)
    following = None if gap_us is None else NINE + timedelta(microseconds=gap_us)
    fire_at = jittered(job, NINE, jitter, following)
    assert NINE <= fire_at < NINE + jitter
    assert following is None or fire_at < following


def test_a_negative_jitter_is_refused():
    with pytest.raises(InvalidField, match=r"jitter .* is negative"):
        jittered(JOB, NINE, -MINUTE, None)
