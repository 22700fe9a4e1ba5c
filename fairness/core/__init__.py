"""Who may go next, and how much: pure decisions, without I/O, without a wall clock, and without a thread.

Times are seconds of a monotonic clock, handed in by the caller.
"""
