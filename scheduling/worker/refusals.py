"""How many deliveries this process did not run, or whose outcome it could not write, by reason. Since its start."""

from __future__ import annotations

import threading
from collections import Counter

_lock = threading.Lock()
_counts: Counter[str] = Counter()


def count_refusal(reason: str) -> None:
    with _lock:
        _counts[reason] += 1


def refusals() -> dict[str, int]:
    """Reason → number. The reasons are those of ``Refusal``, ``unreadable`` and ``lease_lost``."""
    with _lock:
        return dict(_counts)
