from __future__ import annotations

import time

from benchmarks import kept
from benchmarks.catalogue import Benchmark
from benchmarks.suite import Suite


def _run(monkeypatch, tmp_path, benchmark, *, began):
    monkeypatch.setattr(kept, "QUICK", tmp_path / "results")
    monkeypatch.setattr("benchmarks.suite.RUN_DIR", tmp_path)
    return Suite({}, {}, quick=True, began=began).run([benchmark])[benchmark.name]


def test_a_benchmark_that_fails_is_null_with_its_last_words(monkeypatch, tmp_path):
    found = _run(monkeypatch, tmp_path, Benchmark("x", "benchmarks.nowhere", "", ""), began=time.monotonic())
    assert found.figures is None
    assert "No module named benchmarks.nowhere" in found.reason


def test_a_peer_without_its_environment_is_null_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.suite.PEERS_PYTHON", tmp_path / "python")
    found = _run(monkeypatch, tmp_path, Benchmark("x", "benchmarks.x", "", "", peer=True), began=time.monotonic())
    assert found.figures is None
    assert "cannot be run: No such file or directory" in found.reason


def test_what_a_quick_run_has_no_time_for_is_left_out_and_recorded(monkeypatch, tmp_path):
    found = _run(monkeypatch, tmp_path, Benchmark("x", "benchmarks.x", "", ""), began=time.monotonic() - 60)
    assert found.reason == "no time was left in the quick run"
    assert kept.read(tmp_path / "results") == {"x": found}


def test_a_benchmark_that_takes_too_long_is_ended(monkeypatch, tmp_path):
    slow = Benchmark("x", "http.server", "", "0 --bind 127.0.0.1", limit_s=0.5)
    assert _run(monkeypatch, tmp_path, slow, began=time.monotonic()).reason == "it took longer than 0.5 s"
