"""The Celery side: a task that runs a fire under the ledger, what its code may ask for, and the worker around it."""
