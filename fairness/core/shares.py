"""How fair it was: what each tenant was served over the last while, and Jain's index of it.

Jain's index of n values, (Σx)² ÷ (n Σx²), is 1 where all are alike, and k/n where k of them have all, in equal parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping

SLICES = 12


def jain(values: Iterable[float]) -> float:
    """Jain's index; 1 if nobody had anything. Raises ValueError for a value that is negative, or no number.

    >>> jain([1, 1, 1, 1]), jain([1, 0, 0, 0])
    (1.0, 0.25)
    """
    found = list(values)
    if bad := [value for value in found if not value >= 0]:
        raise ValueError(f"value {bad[0]!r}: must be at least 0")
    largest = max(found, default=0.0)
    if not largest:
        return 1.0
    parts = [value / largest for value in found]  # squares of the largest floats would be infinite
    return sum(parts) ** 2 / (len(parts) * sum(part * part for part in parts))


class ServedShares:
    """Cost served by tenant, over a window that slides by a twelfth of itself. Times never go back.

    Raises ValueError if ``window_s`` is not above 0.
    """

    def __init__(self, window_s: float) -> None:
        if not window_s > 0:
            raise ValueError(f"window_s {window_s!r}: must be above 0")
        self._slice_s = window_s / SLICES
        self._slices: deque[tuple[int, dict[Hashable, float]]] = deque()

    def add(self, tenant: Hashable, cost: float, now: float) -> None:
        """So much was served to it by now."""
        number = int(now // self._slice_s)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, {}))
            self._drop_old(number)
        slice_ = self._slices[-1][1]
        slice_[tenant] = slice_.get(tenant, 0.0) + cost

    def served(self, now: float) -> dict[Hashable, float]:
        """What each was served in the window; those who were served nothing are not there."""
        self._drop_old(int(now // self._slice_s))
        total: dict[Hashable, float] = {}
        for _, slice_ in self._slices:
            for tenant, cost in slice_.items():
                total[tenant] = total.get(tenant, 0.0) + cost
        return total

    def index(self, weights: Mapping[Hashable, float], now: float) -> float:
        """Jain's index over the tenants of ``weights`` (those that had work all the while) of cost over weight."""
        served = self.served(now)
        return jain(served.get(tenant, 0.0) / weight for tenant, weight in weights.items())

    def _drop_old(self, number: int) -> None:
        while self._slices and self._slices[0][0] <= number - SLICES:
            self._slices.popleft()
