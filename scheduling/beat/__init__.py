"""Celery beat with a node inside: ``celery -A project beat -S fairbeat``, any number of them side by side.

Celery finds the class by the entry point ``fairbeat``, or by its path, ``scheduling.beat.scheduler:FairbeatScheduler``.
"""
