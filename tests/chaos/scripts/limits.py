"""What happens to Redis, while a tenant has more to do than its rate allows.

In the moment of the fault its burst has gone: a Redis that comes back empty must not let out a second one.
"""

from __future__ import annotations

import time
from datetime import timedelta

from scheduling.core.definition import JobDefinition
from scheduling.models import Job
from tests.chaos.load import LIMITS, MAKING, PATIENT, RATED, TASK
from tests.chaos.registry import scenario
from tests.chaos.stage import Act

AT_ONCE = 2 * LIMITS[RATED].burst
BURST_S = 1.0  # for the burst to go
WATCHED_S = 3.0  # for a second one


@scenario("12", "flushed")
def _flushed(act: Act) -> None:
    began_ns = _crowd(act)
    act.services.redis.flush()
    _recovers(act, began_ns)


@scenario("12", "restarted")
def _restarted(act: Act) -> None:
    began_ns = _crowd(act)
    act.services.redis.kill()
    act.lasts(act.rng.uniform(0.0, 1.0))
    act.services.redis.start()
    _recovers(act, began_ns)


@scenario("12", "gone")
def _gone(act: Act) -> None:
    began_ns = _crowd(act)
    act.services.redis.kill()
    act.lasts(WATCHED_S)
    act.services.redis.start()
    _recovers(act, began_ns)


def _crowd(act: Act) -> int:
    """Twice as many fires as its burst come due. When that began (monotonic ns)."""
    began_ns = time.monotonic_ns()
    at = act.now() + MAKING
    names = [f"crowd {at:%H:%M:%S} {number}" for number in range(AT_ONCE)]
    jobs = [JobDefinition.once_job(TASK, at, name=name, end_at=at, **PATIENT) for name in names]
    Job.objects.copy(jobs, tenant=RATED)
    act.leaves_database()
    act.lasts((MAKING + timedelta(seconds=BURST_S)).total_seconds())
    return began_ns


def _recovers(act: Act, began_ns: int) -> None:
    act.heals()
    act.recovers()
    act.lasts(WATCHED_S)
    act.deeds.rated.append((began_ns, time.monotonic_ns()))
