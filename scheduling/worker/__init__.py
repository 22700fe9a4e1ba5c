"""The Celery side: a task that runs a fire under the ledger, what it tells the task's code, and the heartbeat."""
