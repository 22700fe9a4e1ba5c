"""A deterministic simulation of a fleet: real engines and policies, on a store, a broker and a network that misbehave.

One seeded scheduler drives everything on one virtual clock; nothing here sleeps, dials or starts a thread::

    people ──pause, edit, run now──┐
                                   ▼
    nodes ──claim, settle, mark──▶ store ◀──acquire, complete── workers
      │ ▲                                                          ▲
      │ └──confirms── broker ──deliveries, more than once──────────┘
      └──renew── coordinator

Real are ``Engine`` and everything in ``core``, a node's ``Steering`` and ``Storekeeper``, and the rules of the stores
(their in-memory twins, which share tests with Postgres). Played are threads, sockets, processes, workers and people.

Each seed enables some of the faults (a swarm: with all of them at once the rare combinations drown), draws their
rates, and lets them strike between any two steps. Then everything heals; the world must come to rest in bounded time,
and what was written and what is left are held against I1 to I10 of the design. A seed is the whole story: the same one
gives the same run, event for event.

What it cannot show: interleavings within a transaction, since its store is atomic (tests on real connections do); what
the broker dead-letters, since it gives nothing up. I8 has worlds of its own (``floods``): there every tenant has more
to do than it may, and nothing else goes wrong.
"""
