"""How a fire reaches a worker: one port, and its publishers (RabbitMQ in batches, any kombu transport, in-process)."""
