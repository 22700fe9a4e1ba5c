"""Makes RabbitMQ close the channel of a worker, as it does by its `consumer_timeout`, which is the whole broker's."""

from __future__ import annotations

from typing import Any

from celery.signals import task_received

ID = "closes the channel"


@task_received.connect(weak=False)
def acknowledge_what_nobody_has(sender: Any, request: Any, **_: Any) -> None:
    """Once: it will be delivered again."""
    if request.id == ID and not request.delivery_info["redelivered"]:
        sender.task_consumer.channel.basic_ack(9999)
