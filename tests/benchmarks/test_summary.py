from __future__ import annotations

import pytest

from benchmarks.summary import ratio, summary
from tests.benchmarks.records import ON, fired, named, peer, record


def test_a_ratio_is_ours_over_theirs_to_three_digits():
    assert ratio(10_000, 79) == 127
    assert ratio(10_000, 22_500) == 0.444


@pytest.mark.parametrize(("ours", "theirs"), [(None, 79), (10_000, None), (10_000, 0)])
def test_there_is_no_ratio_without_both(ours, theirs):
    assert ratio(ours, theirs) is None


def test_the_last_line_has_what_was_measured():
    line = summary(
        named(
            fired("fire_path", 12_000),
            fired("fire_path_at_80_percent", 9_600, due_per_s=9_600),
            record("ceiling_publisher", {"confirmed_per_s": 24_000}),
            peer("redbeat", 600),
            peer("redbeat_confirms", 300),
        ),
        ON,
        quick=False,
    )
    assert line["fires_per_s"] == 12_000
    assert line["fire_latency_ms"] == {"p50": 1.5, "p99": 9.9, "p99.9": 20.0, "at_fires_per_s": 9_600}
    assert line["ceiling_publisher_per_s"] == 24_000
    assert line["ratio"]["bare_publisher"] == 0.5
    assert line["ratio"]["redbeat"] == 20
    assert line["ratio"]["redbeat_confirms"] == 40


def test_what_was_not_measured_is_null_and_says_why():
    line = summary(named(fired("fire_path", 12_000), record("redbeat", reason="no wheel")), ON, quick=True)
    assert line["ratio"] == {
        "django_celery_beat_1k": None,
        "django_celery_beat_10k": None,
        "redbeat": None,
        "celery_beat": None,
        "bare_publisher": None,
    }
    assert line["not_measured"] == {"redbeat": "no wheel"}


def test_a_run_without_our_own_figure_has_a_last_line_too():
    line = summary(named(record("fire_path", reason="it took longer than 9 s")), ON, quick=True)
    assert line["fires_per_s"] is None
