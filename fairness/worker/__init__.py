"""Makes any Celery worker consume every tenant's queue in every lane, and share its slots among them by weight.

A step of the worker's consumer, switched on by ``install``. It follows the queues in use (rows in Postgres) and the
weights of tenants as they come and go; after a reconnect it starts from nothing, as Celery does.

- `consumers`: begins and ends to consume, in small steps. `fairness.core.prefetch`: how many messages ahead.
- `pool_door`: the order in which requests go to the pool. `fairness.core.door`: the decisions. `pools`: each kind.
- `loop` and `acks`: read what came in few system calls, and acknowledge together what ends together.
- `asking`: takes messages of long tasks one by one, so that none waits here while a slot elsewhere is free.
- `clerk`: reads Postgres, and reports to it, in a thread.

On RabbitMQ the queues are quorum queues with the publisher's arguments, and each consumer has a prefetch of its own. On
other transports the queues are plain, the prefetch is Celery's, for all queues together, and nothing is asked for; the
door stands there, too.

Invariants: a queue that the broker refuses (another shape under its name) costs that queue alone, and is tried again;
a database that does not answer costs new tenants a delay, and nothing else. A worker that is told by ``-Q`` what to
consume consumes that only, and does not report; none consumes the dead letters, which are the scheduler nodes'. What
cannot be executed goes there: ``fairness.unreadable``. Nothing is ever handed back to a queue.

What Celery's own settings mean here: `worker_prefetch_multiplier` is of the user's own queues alone. `--autoscale`: the
door follows the pool, the prefetch is that of its largest size, and long tasks are delivered ahead, since the pool
grows by what waits in it. An ETA waits in the worker, in a place of its queue's prefetch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from fairness.queues import QueuePlan
from fairness.worker.sharing import Sharing
from fairness.worker.step import TenantQueues

__all__ = ["Sharing", "TenantQueues", "install"]


def install(
    app: Any,
    *,
    lanes: Collection[str],
    plan: Callable[[], QueuePlan],
    tenant_header: str = "",
    sharing: Callable[[], Sharing] = Sharing,
) -> None:
    """Give the workers of this Celery app the step. ``plan`` is asked at each connect: it must be the publisher's.

    ``tenant_header``: the header in which a message names its tenant; one that came through another tenant's queue is
    rejected. Empty: messages do not say. ``sharing`` is asked as a worker starts.
    """

    class Installed(TenantQueues):
        pass

    Installed.lanes, Installed.plan, Installed.tenant_header = tuple(lanes), staticmethod(plan), tenant_header
    Installed.sharing = staticmethod(sharing)
    app.steps["consumer"].add(Installed)
