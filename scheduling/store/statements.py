"""Reads the ``.sql`` files: ``-- name: claim`` starts a statement, ``{work}`` includes another one by its name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"\{(\w+)\}")


@cache
def statements(file: str, **overrides: str) -> dict[str, str]:
    """The statements of ``sql/<file>.sql`` by name; ``overrides`` replaces some that others include."""
    return read_statements(Path(__file__).parent / "sql" / f"{file}.sql", **overrides)


def read_statements(path: Path, **overrides: str) -> dict[str, str]:
    """The statements of a file by name."""
    pieces = _NAME.split(path.read_text())[1:]
    texts = dict(zip(pieces[::2], (text.strip() for text in pieces[1::2]), strict=True)) | overrides
    while any(name in texts for text in texts.values() for name in _INCLUDE.findall(text)):
        texts = {name: _INCLUDE.sub(lambda m: texts.get(m[1], m[0]), text) for name, text in texts.items()}
    return texts
