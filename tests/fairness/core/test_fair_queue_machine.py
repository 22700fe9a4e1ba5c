"""Whatever is done to a fair queue in whatever order, its promises hold."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fairness.core.branch import Branch
from fairness.core.caps import Cap
from fairness.core.fair_queue import FairQueue
from fairness.core.gate import Gate
from fairness.core.node import UNIT, Flow, Node, State, Ticket
from fairness.core.rate import Rate
from fairness.core.tree import FlowPath, Path, below

LANES, TENANTS, KEYS = ["x", "y"], [1, 2, 3], ["1", "2"]
paths = st.tuples(st.sampled_from(LANES), st.sampled_from(TENANTS), st.sampled_from(KEYS))
nodes = paths.flatmap(lambda path: st.sampled_from([path[:1], path[:2], path]))
costs = st.floats(1e-3, 100) | st.sampled_from([1.0, 1e-6, 1e7])


class FairQueueMachine(RuleBasedStateMachine):
    """``tickets`` has every ticket there ever was; ``gone`` the items that were taken out."""

    @initialize(capacity=st.floats(0, 100))
    def begin(self, capacity: float) -> None:
        self.queue: FairQueue[int] = FairQueue(capacity=capacity)
        self.now = 0.0
        self.tickets: list[Ticket[int]] = []
        self.gone: set[int] = set()
        self.times: dict[int, tuple[Any, int]] = {}  # by branch: itself, and its virtual time when last seen

    # -- what is done ---------------------------------------------------------------------------------------------

    @rule(path=paths, cost=costs, times=st.integers(1, 4))
    def offer(self, path: FlowPath, cost: float, times: int) -> None:
        for _ in range(times):
            ticket = self.queue.offer(len(self.tickets), path, cost)
            self.tickets.append(ticket)

    @rule(
        limit=st.integers(0, 5),
        window=st.sampled_from([inf, 0.0, 1.0, 50.0]),
        rooms=st.dictionaries(st.sampled_from(LANES), st.integers(0, 3)),
    )
    def take(self, limit: int, window: float, rooms: dict[str, int]) -> None:
        before = self.waiting()
        taken = self.queue.take(self.now, limit, window=window, rooms=rooms)
        assert all(ticket in before and ticket.state is State.GRANTED for ticket in taken)
        assert len(set(taken)) == len(taken) <= limit
        went = Counter(ticket.path[0] for ticket in taken)
        assert all(went[lane] <= room for lane, room in rooms.items())
        if len(taken) < limit:  # no slot idles
            left = [lane for lane in LANES if went[lane] < rooms.get(lane, limit)]
            assert not [ticket for ticket in self.waiting() if ticket.path[0] in left and self.may_go(ticket)]
        self.in_order(taken)

    @rule()
    def next(self) -> None:
        if (ticket := self.queue.next(self.now)) is None:
            assert not [ticket for ticket in self.waiting() if self.may_go(ticket)]
        else:
            assert ticket.state is State.GRANTED

    @precondition(lambda self: self.under_way())
    @rule(data=st.data(), cost=st.floats(0, 1e8) | st.none())
    def finish(self, data: st.DataObject, cost: float | None) -> None:
        assert self.queue.finished(data.draw(st.sampled_from(self.under_way())), cost)

    @precondition(lambda self: self.under_way())
    @rule(data=st.data(), cost=st.floats(0, 1e8))
    def charge(self, data: st.DataObject, cost: float) -> None:
        self.queue.charge(data.draw(st.sampled_from(self.under_way())), cost)

    @precondition(lambda self: self.under_way())
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.queue.started(data.draw(st.sampled_from(self.under_way())))

    @precondition(lambda self: self.under_way())
    @rule(data=st.data(), count=st.integers(1, 4))
    def refund(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.under_way()))):
            ticket = data.draw(st.sampled_from(self.under_way()))
            waits_again = self.queue.refund(ticket)
            assert waits_again == (ticket.state is State.WAITING)
            if ticket.state is State.OVER:
                self.gone.add(ticket.item)  # its tenant was forgotten

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.tickets))
        could = ticket.state in (State.WAITING, State.GRANTED)
        assert self.queue.withdraw(ticket) == could
        if could:
            assert ticket.state is State.OVER
            self.gone.add(ticket.item)

    @rule(lane=st.sampled_from(LANES))
    def share(self, lane: str) -> None:
        self.queue.share(lane)

    @rule(lane=st.sampled_from(LANES), data=st.data())
    def hear_of_others(self, lane: str, data: st.DataObject) -> None:
        """What was charged here is told, and more was charged elsewhere, or less."""
        self.queue.charges(lane)
        tags = {
            tenant: self.queue.tag((lane, tenant)) / UNIT + data.draw(st.floats(-5, 50))
            for tenant in data.draw(st.lists(st.sampled_from(TENANTS), unique=True))
        }
        ahead = data.draw(st.floats(-5, 50))
        self.queue.adopt(lane, tags, self.queue.virtual_time((lane,)) / UNIT + ahead)

    @rule(path=nodes, weight=st.sampled_from([0.001, 0.5, 1.0, 7.0, 10_000.0]))
    def weigh(self, path: Path, weight: float) -> None:
        self.queue.set_weight(path, weight)

    @rule(path=nodes, kind=st.sampled_from(["none", "cap", "rate", "both"]), limit=st.integers(0, 3))
    def limit(self, path: Path, kind: str, limit: int) -> None:
        cap, rate = Cap(limit, lease_s=20), Rate(0.5 + limit, burst=1 + limit)
        gates: dict[str, list[Gate]] = {"none": [], "cap": [cap], "rate": [rate], "both": [cap, rate]}
        self.queue.set_gates(path, gates[kind])

    @rule(path=nodes, ahead=st.sampled_from([-1.0, 0.5, 3.0, 30.0, inf]))
    def park(self, path: Path, ahead: float) -> None:
        self.queue.park(path, self.now + ahead, "pause")

    @rule(path=nodes)
    def unpark(self, path: Path) -> None:
        self.queue.unpark(path)

    @rule(path=nodes)
    def forget(self, path: Path) -> None:
        lost = self.queue.forget(path)
        assert all(self.tickets[item].state is State.OVER for item in lost)
        self.gone.update(lost)

    @rule(modulus=st.integers(2, 5))
    def remove(self, modulus: int) -> None:
        removed = self.queue.remove_if(lambda item: item % modulus == 0)
        assert all(item % modulus == 0 for item in removed)
        self.gone.update(removed)

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def wait_for_the_next_to_wake(self) -> None:
        if (wake := self.queue.next_wake()) < inf:
            self.now = max(self.now, wake)

    # -- what holds -----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_and_nothing_doubled(self) -> None:
        waiting = [ticket.item for flow in self.all_nodes() if isinstance(flow, Flow) for ticket in flow]
        assert sorted(waiting) == [ticket.item for ticket in self.waiting()]
        assert len(self.queue) == len(waiting)
        assert not self.gone & {ticket.item for ticket in self.tickets if ticket.state is not State.OVER}

    @invariant()
    def virtual_time_never_goes_back(self) -> None:
        for branch in self.all_nodes():
            if isinstance(branch, Branch):
                _, before = self.times.get(id(branch), (branch, 0))
                assert branch.virtual_time >= before
                self.times[id(branch)] = (branch, branch.virtual_time)

    @invariant()
    def who_is_ready_has_a_seat_and_counts_once(self) -> None:
        for node in self.all_nodes():
            assert node.is_ready == (node.size > 0 and not node.is_parked) or node.parent is node
            if node.is_ready:
                assert node.seat
            if isinstance(node, Branch):
                ready = [child for child in node.children.values() if child.is_ready]
                assert (node.size, node.ready_weight) == (len(ready), sum(child.weight for child in ready))
                seated, entries = list(node.seated()), list(node.others or ())
                assert len(seated) == len(set(seated))
                assert set(seated) >= set(ready)
                assert all(child.seat and child.seat_tag <= child.tag for child in seated)
                assert node.first is min(seated, key=lambda child: (child.seat_tag, child.seat), default=None)
                if node.others is not None:
                    assert node.others.left_behind == len(entries) - len(seated[1:])
            assert node.running == sum(node in path_of(ticket.flow) for ticket in self.under_way())

    @invariant()
    def what_waits_can_be_found(self) -> None:
        for lane in LANES:
            waiting = [ticket for ticket in self.waiting() if ticket.path[0] == lane]
            assert self.queue.waiting((lane,)) == len(waiting)
            assert self.queue.oldest((lane,)) is min(waiting, key=lambda ticket: ticket.number, default=None)
            rows = self.queue.rows(lane, 9)
            ready = [
                node for node in self.all_nodes() if node.is_ready and node.path[:1] == (lane,) and len(node.path) == 2
            ]
            assert sorted(str(row.tenant_id) for row in rows) == sorted(str(node.name) for node in ready)
            assert [row.tag for row in rows] == sorted(row.tag for row in rows)
            assert sum(row.in_flight for row in rows) == sum(node.running for node in ready)

    @invariant()
    def who_is_away_saves_up_nothing(self) -> None:
        """Who is idle is behind virtual time by no more than settlements may bring back; who comes back, by nothing."""
        for node in self.all_nodes():
            if not node.is_ready and not node.running and not node.is_kept and not node.is_parked and not node.size:
                assert node.parent is node or node.tag > node.parent.virtual_time or _has_children(node)

    @invariant()
    def whoever_waits_has_one_reason(self) -> None:
        for ticket in self.waiting():
            reason, until = self.queue.why(path_name(ticket.flow))
            assert reason in ("turn", "pause", "cap", "rate")
            assert (reason == "turn") == (until == -inf)

    def waiting(self) -> list[Ticket[int]]:
        return [ticket for ticket in self.tickets if ticket.state is State.WAITING]

    def under_way(self) -> list[Ticket[int]]:
        return [ticket for ticket in self.tickets if ticket.state in (State.GRANTED, State.STARTED)]

    def all_nodes(self) -> list[Node[int]]:
        return list(below(self.queue._tree.root))

    def may_go(self, ticket: Ticket[int]) -> bool:
        """By what the nodes on its way are told, whatever the queue thinks of them."""
        for node in path_of(ticket.flow):
            if node.is_parked and node.held_by is None and self.queue._parking.until(node) > self.now:
                return False
            if any(gate.opens_at(self.now) > self.now for gate in node.gates):
                return False
        return True

    def in_order(self, taken: list[Ticket[int]]) -> None:
        for number, ticket in enumerate(taken):
            younger = [other for other in taken[:number] if other.flow is ticket.flow and other.number > ticket.number]
            assert not younger
            assert not [other for other in self.waiting() if other.flow is ticket.flow and other.number < ticket.number]


def path_of(flow: Node[int]) -> list[Node[int]]:
    """It, its tenant, its lane and the root."""
    way = [flow]
    while way[-1].parent is not way[-1]:
        way.append(way[-1].parent)
    return way


def path_name(flow: Node[int]) -> Path:
    return flow.path


def _has_children(node: Node[int]) -> bool:
    return isinstance(node, Branch) and bool(node.children)


def test_its_promises_hold_whatever_is_done() -> None:
    run_state_machine_as_test(
        FairQueueMachine, settings=settings(max_examples=40, stateful_step_count=40, deadline=None)
    )
