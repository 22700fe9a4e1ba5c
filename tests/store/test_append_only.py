"""The history of attempts is append-only: rows are added, and go with their day; nothing changes one."""

from __future__ import annotations

import re
from pathlib import Path

import scheduling

ROOT = Path(scheduling.__file__).parent
CHANGES = re.compile(
    r"(UPDATE|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE)\s+(ONLY\s+)?(scheduling_jobrun|\{runs\})"
    r"|JobRun\.objects\b.*\.(update|delete|bulk_update|update_or_create)\(",
    re.IGNORECASE,
)


def test_no_statement_changes_or_removes_a_row_of_the_history() -> None:
    files = [path for end in ("py", "sql") for path in ROOT.rglob(f"*.{end}") if "migrations" not in path.parts]
    assert any("INSERT INTO {runs}" in path.read_text() for path in files)
    assert [path.name for path in files if CHANGES.search(path.read_text())] == []


def test_a_second_row_for_an_attempt_is_never_written_over_the_first() -> None:
    for path in ROOT.rglob("*.sql"):
        for statement in re.split(r"^-- name: ", path.read_text(), flags=re.MULTILINE):
            if re.search(r"INSERT INTO (scheduling_jobrun|\{runs\})", statement):
                assert "DO UPDATE" not in statement, f"{path.name}: {statement.splitlines()[0]}"
