"""What the calling thread's connection is in the midst of."""

from __future__ import annotations

from typing import Any

from django.db import connections


def is_in_transaction(using: str) -> bool:
    """A test case's own transaction does not count, as for Django's durable blocks."""
    blocks: list[Any] = connections[using].atomic_blocks
    return bool(blocks) and not blocks[-1]._from_testcase
