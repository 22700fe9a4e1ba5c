"""Who gets how much, in simulated time: tenants, nodes, round trips, exchanges and workers are events with seeds, and
between them are the real fair queue, depth and exchange.
"""
