"""The pure core: no Django, no I/O, no wall clock.

Everything here can be driven by a test, or by a simulation, that owns the time.
"""
