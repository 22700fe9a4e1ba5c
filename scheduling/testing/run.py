"""What a test is told of each attempt that its workers made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt that began, and the state of its fire right after it. ``error``: what it raised, in a line."""

    fire_id: UUID
    task: str
    name: str  # of the job
    tenant: str
    scheduled_for: datetime
    attempt: int
    state: str
    error: str
