"""Which tzdata this process computes with.

``zoneinfo`` looks a zone up in the directories of its path, and then in the package ``tzdata``; so the version is that
of each of these which is there. A directory that does not tell its version is told by a hash of its zones.
"""

from __future__ import annotations

import zoneinfo
from hashlib import sha256
from importlib import import_module
from pathlib import Path

MAGIC = b"TZif"  # RFC 8536


def zone_data_version() -> str:
    """Such as ``2026a, package 2026b``. Equal where the same zones would be read."""
    found = [version for directory in zoneinfo.TZPATH if (version := _of_directory(Path(directory)))]
    try:
        package: str = import_module("tzdata").IANA_VERSION
    except ModuleNotFoundError:
        return ", ".join(found)
    return ", ".join([*found, f"package {package}"])


def _of_directory(directory: Path) -> str:
    """Empty where there is no zone."""
    if not directory.is_dir():
        return ""
    told = directory / "+VERSION"  # BSD, macOS
    if told.is_file():
        return told.read_text().strip()
    source = directory / "tzdata.zi"
    if source.is_file():
        with source.open() as lines:
            first = lines.readline()
        if first.startswith("# version "):
            return first.removeprefix("# version ").strip()
    return _hashed(directory)


def _hashed(directory: Path) -> str:
    digest, count = sha256(), 0
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        data = file.read_bytes()
        if data.startswith(MAGIC):
            digest.update(f"{file.relative_to(directory)} {len(data)} ".encode() + data)
            count += 1
    return f"{count} zones {digest.hexdigest()[:12]}" if count else ""
