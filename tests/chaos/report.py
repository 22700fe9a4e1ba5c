"""What a run says at its end: a line of JSON for programs, and a table for `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from tests.chaos.judge import Finding, Verdict
from tests.chaos.stage import LONGEST_S, Act
from tests.chaos.titles import TITLES

BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
HEAD = """\
| | fault | injections | lost | doubled | recovery, median | longest | takeover, longest |
|---|---|--:|--:|--:|--:|--:|--:|"""


def summary(acts: Sequence[Act], verdict: Verdict, *, seed: int) -> dict[str, Any]:
    """The last line. ``unheld`` counts runs that the ledger should not have let begin, ``over`` limits not kept."""
    takeovers = [act.takeover_s for act in acts if act.takeover_s is not None]
    return {
        "injections": {number: count for number in TITLES if (count := len(_of(acts, number)))},
        "fires": verdict.fired,
        "skipped": dict(verdict.skipped),
        "dead": dict(verdict.dead),
        "lost": len(verdict.lost),
        "duplicate_effects": len(verdict.doubled),
        "unheld": len(verdict.unheld),
        "over": len(verdict.over),
        "worst_takeover_s": round(max(takeovers), 2) if takeovers else None,
        "seed": seed,
    }


def table(acts: Sequence[Act], verdict: Verdict) -> str:
    """A row for each scenario; a finding belongs to that in whose time its occurrence was due."""
    return "\n".join([HEAD, *(_row(number, _of(acts, number), verdict) for number in TITLES)])


def headline(acts: Sequence[Act], verdict: Verdict, *, seed: int) -> str:
    """What stands above the table."""
    skipped, dead = (
        ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items())) or "none"
        for counts in (verdict.skipped, verdict.dead)
    )
    return (
        f"Seed {seed}, {len(acts)} injections: {verdict.due:,} occurrences due, {verdict.fired:,} fired "
        f"({verdict.runs:,} runs), skipped with a reason: {skipped}; dead letters that had to be: {dead}; "
        f"{len(verdict.lost)} lost, {len(verdict.doubled)} doubled, {len(verdict.unheld)} held twice, "
        f"{len(verdict.over)} limits exceeded."
    )


def write_table(file: Path, text: str) -> None:
    """Between its two marks. Raises ValueError where the file has none."""
    before, found, rest = file.read_text().partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"{file} has no place for the table: {BEGIN} … {END}")
    file.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def describe(act: Act) -> str:
    """A line for a person who watches."""
    recovered = f"recovered after {act.recovery_s:.1f} s" if act.recovery_s is not None else "NOT RECOVERED in time"
    taken = f", taken over after {act.takeover_s:.1f} s" if act.takeover_s is not None else ""
    note = f" ({act.note})" if act.note else ""
    lasted_s = (act.ended - act.began).total_seconds()
    name = f"{act.injection.scenario}: {act.injection.variant}"
    return f"{act.began:%H:%M:%S} {name:<45} {recovered}{taken}; {lasted_s:.1f} s in all{note}"


def _row(number: str, acts: Sequence[Act], verdict: Verdict) -> str:
    recoveries = [act.recovery_s for act in acts if act.recovery_s is not None]
    takeovers = [act.takeover_s for act in acts if act.takeover_s is not None]
    longest = _seconds(max(recoveries, default=None))
    if len(recoveries) < len(acts):
        longest = f"over {LONGEST_S:g} s"
    cells = (
        number,
        TITLES[number],
        len(acts),
        _within(acts, verdict.lost),
        _within(acts, [*verdict.doubled, *verdict.unheld, *verdict.over]),
        _seconds(median(recoveries) if recoveries else None),
        longest,
        _seconds(max(takeovers, default=None)),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _of(acts: Iterable[Act], number: str) -> list[Act]:
    return [act for act in acts if act.injection.scenario == number]


def _within(acts: Iterable[Act], findings: Iterable[Finding]) -> int:
    spans = [(act.began, act.ended) for act in acts]
    return sum(_is_in(finding.at, spans) for finding in findings)


def _is_in(at: datetime | None, spans: Iterable[tuple[datetime, datetime]]) -> bool:
    return at is not None and any(began <= at < ended for began, ended in spans)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
