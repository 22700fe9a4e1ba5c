from __future__ import annotations

from dataclasses import replace

from benchmarks.report import BEGIN, END, between_markers, flat, measured_on, tables
from tests.benchmarks.records import fired, named, peer, record


def test_only_what_is_between_the_markers_is_written():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert between_markers(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_a_fire_path_is_a_row_with_its_costs_and_its_command():
    (row,) = [line for line in tables(named(fired("fire_path", 12_000))).splitlines() if "capacity" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")][1:10] == [
        "20,000", "12,000", "1.5", "9.9", "20.0", "50.0", "40.0", "–", "–",
    ]  # fmt: skip
    assert "`python -m fire_path`" in row


def test_a_peer_is_a_row_with_what_we_are_to_it_in_the_same_run_whatever_another_one_found():
    beside = replace(peer("redbeat_confirms", 300, publisher_confirms=True), ours=9_000)
    text = tables(named(fired("fire_path", 12_000), beside, peer("redbeat", 600)))
    assert "| redbeat_confirms | 300 | 9,000 | 30.0 | 1,000 jobs; with publisher confirms; celery 5.7.0 |" in text
    assert "| redbeat | 600 | – | – |" in text


def test_growth_is_a_row_for_each_case():
    case = {"at_rest": 10_000, "shards": 64, "fires_per_s": 2000, "lease_s": 0.9, "first_fire_s": 1.2}
    text = tables(named(record("growth", {"rows": [case | {"node_rss_mib": 84.0}]})))
    assert "| 10,000 | 64 | 2,000 |" in text
    assert text.rstrip().endswith("`python -m growth`")


def test_what_was_not_measured_is_said():
    assert "- redbeat: no wheel" in tables(named(record("redbeat", reason="no wheel")))


def test_benchmarks_without_a_table_of_their_own_list_their_figures():
    text = tables(named(record("timing_wheel", {"wheel_per_s": 645_175, "ratio": {"heapq": 0.85}})))
    assert "| timing_wheel | wheel per s 645,175; ratio heapq 0.85 | `python -m timing_wheel` |" in text


def test_figures_are_flattened_with_the_names_of_their_groups():
    found = flat({"jobs_per_s": [1000, 2000], "single_ms": {"p50": 0.4}, "settings": {"BATCH": 1}, "python": "3.11"})
    assert found == ["jobs per s 1,000, 2,000", "single ms p50 0.4"]


def test_hardware_is_said_once_with_every_commit():
    text = measured_on([record("a", {}), record("b", {})])
    assert text.count("a CPU, 2 CPUs") == 1
    assert text.endswith("commit abc of 2026-03-02.")
