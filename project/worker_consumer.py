"""The worker's consumer, less Celery's native delayed delivery.

Celery turns that on where it finds a quorum queue: each worker then declares 28 queues and as many exchanges for
messages with an ETA (0.6 s at each start), and warns that it cannot use them: that needs topic exchanges, and ours are
direct. A delay is the scheduler's affair here; a plain task with an ETA waits in the worker, as with any classic queue.
"""

from __future__ import annotations

from celery.worker.consumer import Consumer as CeleryConsumer

DELAYED_DELIVERY = "celery.worker.consumer.delayed_delivery:DelayedDelivery"


class Consumer(CeleryConsumer):
    """Named by the setting `worker_consumer`."""

    class Blueprint(CeleryConsumer.Blueprint):  # type: ignore[misc, valid-type]  # typed as a value
        default_steps = [step for step in CeleryConsumer.Blueprint.default_steps if step != DELAYED_DELIVERY]
