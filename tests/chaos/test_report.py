"""What a chaos run says at its end."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import report
from tests.chaos.judge import Finding, Verdict
from tests.chaos.order import Injection
from tests.chaos.scenarios import scenarios
from tests.chaos.stage import Act
from tests.chaos.titles import TITLES

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def act(scenario: str, *, at_s: float, recovery_s: float | None, takeover_s: float | None = None) -> Act:
    """One that lasted ten seconds."""
    stage: Any = None
    made = Act(stage, Injection(scenario, "-", 1), recovery_s=recovery_s, takeover_s=takeover_s)
    made.began = T0 + timedelta(seconds=at_s)
    made.ended = made.began + timedelta(seconds=10)
    return made


ACTS = [
    act("1", at_s=0, recovery_s=2.0, takeover_s=1.5),
    act("2", at_s=10, recovery_s=0.5, takeover_s=2.25),
    act("1", at_s=20, recovery_s=3.0, takeover_s=1.0),
    act("6", at_s=30, recovery_s=None),
]


def row(number: str, verdict: Verdict) -> list[str]:
    rows = report.table(ACTS, verdict).splitlines()[2:]
    assert len(rows) == len(TITLES)
    (found,) = (row for row in rows if row.startswith(f"| {number} |"))
    return [cell.strip() for cell in found.split("|")[3:-1]]


def test_a_finding_belongs_to_the_scenario_in_whose_time_its_occurrence_was_due() -> None:
    verdict = Verdict(lost=[Finding("x", T0 + timedelta(seconds=25)), Finding("y", T0 + timedelta(seconds=15))])
    assert [row(number, verdict)[1] for number in ("1", "2", "6")] == ["1", "1", "0"]


def test_two_holders_count_as_doubled() -> None:
    verdict = Verdict(doubled=[Finding("x", T0)], unheld=[Finding("y", T0)])
    assert row("1", verdict)[2] == "2"


def test_a_row_tells_how_soon_a_scenario_was_recovered_from_and_taken_over() -> None:
    assert row("1", Verdict()) == ["2", "0", "0", "2.5 s", "3.0 s", "1.5 s"]


def test_a_scenario_that_was_not_recovered_from_in_its_time_says_so() -> None:
    assert row("6", Verdict())[4] == "over 12 s"
    assert "NOT RECOVERED" in report.describe(ACTS[3])


def test_the_summary_has_what_programs_rely_on() -> None:
    dead = Counter({"attempts_exhausted": 3})
    verdict = Verdict(fired=900, dead=dead, lost=[Finding("x")], doubled=[Finding("y"), Finding("z")])
    assert report.summary(ACTS, verdict, seed=7) == {
        "injections": {"1": 2, "2": 1, "6": 1},
        "fires": 900,
        "skipped": {},
        "dead": {"attempts_exhausted": 3},
        "lost": 1,
        "duplicate_effects": 2,
        "unheld": 0,
        "over": 0,
        "worst_takeover_s": 2.25,
        "seed": 7,
    }


def test_the_table_is_written_between_its_marks_again_and_again(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_table(page, "new")
    report.write_table(page, "newer")
    assert page.read_text() == f"before\n{report.BEGIN}\nnewer\n{report.END}\nafter\n"


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n")
    with pytest.raises(ValueError, match="no place"):
        report.write_table(page, "new")
    assert page.read_text() == "before\n"


def test_every_scenario_of_the_list_has_a_script() -> None:
    assert all(scenarios().values())
