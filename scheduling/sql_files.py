"""Reads the ``.sql`` files: ``-- name: claim`` starts a statement, ``{work}`` includes another one by its name.

Beside the layers, since models have statements of their own that share some with the store's.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "store" / "sql"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"\{(\w+)\}")


@cache
def statements(file: str, **overrides: str) -> dict[str, str]:
    """The statements of ``store/sql/<file>.sql`` by name; ``overrides`` replaces some that others include."""
    return read_statements(_FOLDER / f"{file}.sql", **overrides)


def read_statements(path: Path, **overrides: str) -> dict[str, str]:
    """The statements of a file by name."""
    pieces = _NAME.split(path.read_text())[1:]
    texts = dict(zip(pieces[::2], (text.strip() for text in pieces[1::2]), strict=True)) | overrides
    return {name: _included(text, texts) for name, text in texts.items()}


def _included(text: str, texts: dict[str, str]) -> str:
    """``{name}`` of a statement becomes its text, as deep as it goes; any other braces are left."""
    return _INCLUDE.sub(lambda found: _included(texts[found[1]], texts) if found[1] in texts else found[0], text)
