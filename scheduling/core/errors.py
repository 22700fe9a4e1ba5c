"""The one small tree of exceptions. Every message is a sentence that an operator can act upon."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial


class FairbeatError(Exception):
    """The root: catch this to catch all of ours."""


class InvalidField(FairbeatError, ValueError):
    """A value that cannot be accepted; names the field and shows the value.

    >>> str(InvalidField("cron", "61 * * * *", "minute 61 is not in 0-59"))
    "cron '61 * * * *': minute 61 is not in 0-59"
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field} {_shown(value)}: {problem}")
        self.field = field
        self.value = value
        self.problem = problem

    def __reduce__(self) -> tuple[type[InvalidField], tuple[str, object, str]]:
        return type(self), (self.field, self.value, self.problem)


class QuotaExceeded(InvalidField):
    """A tenant may not have so many jobs. ``more`` were to be made beside what it ``has``; None: more than its quota.

    >>> str(QuotaExceeded("acme", quota=10, has=9, more=2))
    "tenant 'acme': may have 10 jobs (max_jobs), and has 9: 2 more are too many"
    """

    def __init__(self, tenant: str, *, quota: int, has: int | None, more: int) -> None:
        there, too_many = "more" if has is None else has, f"{more} more {'is' if more == 1 else 'are'} too many"
        jobs = f"{quota} job{'' if quota == 1 else 's'}"
        super().__init__("tenant", tenant, f"may have {jobs} (max_jobs), and has {there}: {too_many}")
        self.quota, self.has, self.more = quota, has, more

    def __reduce__(self) -> tuple[Callable[[], QuotaExceeded], tuple[()]]:  # type: ignore[override]
        tenant = str(self.value)
        return partial(QuotaExceeded, tenant, quota=self.quota, has=self.has, more=self.more), ()


class ServiceUnreachable(FairbeatError):
    """A service that was asked for by name does not answer."""


class StaleEpoch(FairbeatError):
    """A write was refused: another node has taken these shards over since."""

    def __init__(self, shards: Collection[int]) -> None:
        super().__init__(f"shards {sorted(shards)} have a newer epoch: another node owns them now")
        self.shards = frozenset(shards)


class LeaseLost(FairbeatError):
    """A write was refused: this worker no longer holds the fire."""


def _shown(value: object, limit: int = 120) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list in a list in a list
        return f"{type(value).__name__} that cannot be shown"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
