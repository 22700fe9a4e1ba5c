"""The demo: a small application on top of the scheduler, with a task of its own and the rows that it writes."""
