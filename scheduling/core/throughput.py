"""How many of something a second, over the last minute. Times are monotonic seconds."""

from __future__ import annotations

from collections import deque

SPAN_S = 60.0


class Throughput:
    """Counted by the second. Of less than a minute, what there was of it counts."""

    def __init__(self, now: float) -> None:
        self._began_at = now
        self._seconds: deque[tuple[int, int]] = deque()  # and how many in each
        self._count = 0

    def add(self, now: float) -> None:
        second = int(now)
        self._count += 1
        if self._seconds and self._seconds[-1][0] == second:
            second, count = self._seconds.pop()
            self._seconds.append((second, count + 1))
        else:
            self._seconds.append((second, 1))

    def per_s(self, now: float) -> float:
        while self._seconds and self._seconds[0][0] <= now - SPAN_S:
            self._count -= self._seconds.popleft()[1]
        return self._count / min(SPAN_S, max(1.0, now - self._began_at))
