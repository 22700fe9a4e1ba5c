"""Reads the ``.sql`` files: ``-- name: claim`` starts a statement, ``{work}`` includes another one by its name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"\{(\w+)\}")


@cache
def statements(file: str) -> dict[str, str]:
    """The statements of ``sql/<file>.sql`` by name."""
    pieces = _NAME.split((Path(__file__).parent / "sql" / f"{file}.sql").read_text())[1:]
    texts = dict(zip(pieces[::2], (text.strip() for text in pieces[1::2]), strict=True))
    return {name: _INCLUDE.sub(lambda m: texts[m[1]], text) for name, text in texts.items()}
