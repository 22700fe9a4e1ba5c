"""A Celery worker of this project as it starts on RabbitMQ."""

from __future__ import annotations

import signal

from tests.conftest import Spawn


def test_it_takes_its_prefetch_by_consumer_and_declares_no_queues_for_delays(spawn: Spawn, rabbitmq_url: str):
    options = ("-A", "project", "worker", "--pool=solo", "--loglevel=INFO", "--without-mingle", "--without-gossip")
    worker = spawn("celery", *options, ready="ready.", AMQP_URL=rabbitmq_url, CELERY_BROKER_URL=rabbitmq_url)
    worker.wait_for_line("Prefetch count is now static")  # else RabbitMQ 3 refuses it the tenants' queues
    assert "delayed delivery" not in worker.output
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0
