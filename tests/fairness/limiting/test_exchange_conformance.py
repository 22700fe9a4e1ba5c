"""What nodes are answered that tell each other of a lane, whatever keeps it for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fairness.core.exchange import LEASE_S, Charge, Exchange, Row, Settled, Told
from tests.fairness.limiting.conftest import Clock, Exchanges

LANE = "bulk"


def row(tenant_id: int, tag: float, *, waiting: int = 100, weight: float = 1.0, in_flight: int = 0) -> Row:
    return Row(tenant_id, tag, weight, 1.0, waiting, in_flight)


def tell(
    exchange: Exchange,
    *rows: Row,
    charges: Mapping[int, Charge] | None = None,
    at: float = 0.0,
    in_flight: int = 0,
    depth: int = 8,
    lane: str = LANE,
) -> Settled:
    """``at`` is the node's virtual time."""
    wants = sum(row.waiting for row in rows)
    (settled,) = exchange.exchange([Told(lane, charges or {}, rows, at, in_flight, wants, depth)])
    return settled


def rounded(tags: Mapping[int, float]) -> dict[int, float]:
    return {tenant: round(tag, 6) for tenant, tag in tags.items()}


def test_a_tag_is_what_all_nodes_have_charged(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 0), row(2, 0))
    tell(other, row(1, 0), row(2, 0))
    tell(one, row(1, 3), row(2, 0), charges={1: Charge(3)})
    answer = tell(other, row(1, 2), row(2, 0), charges={1: Charge(2)})
    assert rounded(answer.tags) == {1: 5, 2: 0}
    assert rounded(tell(one, row(1, 3), row(2, 0)).tags) == {1: 5, 2: 0}
    assert rounded(tell(one, row(1, 4), row(2, 0), charges={1: Charge(-1)}).tags) == {1: 4, 2: 0}


def test_each_node_is_told_times_as_they_run_for_it(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 1000), row(2, 1004), at=1000)
    answer = tell(other, row(1, 70), row(2, 70), at=70)
    assert rounded(answer.tags) == {1: 70, 2: 74}
    assert answer.virtual_time == pytest.approx(70)
    tell(one, row(1, 1006), row(2, 1004), at=1004, charges={1: Charge(6)})
    answer = tell(other, row(1, 70), row(2, 74), at=70)
    assert rounded(answer.tags) == {1: 76, 2: 74}
    assert answer.virtual_time == pytest.approx(74)


def test_virtual_time_is_the_least_tag_of_all_that_wait_and_never_goes_back(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 0))
    tell(other, row(2, 0))
    assert tell(one, row(1, 5), charges={1: Charge(5)}).virtual_time == 0
    assert tell(other, row(2, 3), charges={2: Charge(3)}).virtual_time == 3
    assert tell(other, row(2, 1), charges={2: Charge(-2)}, at=3).virtual_time == 3


def test_whoever_comes_anew_or_comes_back_starts_at_virtual_time(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 0), row(2, 0))
    tell(other, row(1, 0), row(2, 0))
    tell(one, row(1, 50), charges={1: Charge(50), 2: Charge(1)})
    tell(other, row(1, 0), at=0)  # where 2 has nothing waiting either
    answer = tell(other, row(1, 50), row(2, 50), row(3, 50), at=50, charges={2: Charge(0, came=True)})
    assert rounded(answer.tags) == {1: 50, 2: 50, 3: 50}


def test_a_settlement_below_virtual_time_stays_to_whoever_is_waiting(exchanges: Exchanges) -> None:
    one = exchanges("one")
    tell(one, row(1, 0), row(2, 0))
    tell(one, row(1, 5), row(2, 5), charges={1: Charge(5), 2: Charge(5)})
    assert rounded(tell(one, row(1, 2), row(2, 5), at=5, charges={1: Charge(-3)}).tags) == {1: 2, 2: 5}
    assert rounded(tell(one, row(1, 2), row(2, 5), at=5).tags) == {1: 2, 2: 5}


def test_what_a_tenant_is_ahead_by_is_restated_at_another_weight(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 0, weight=0.01), row(2, 0))
    tell(one, row(1, 100, weight=0.01), row(2, 0), charges={1: Charge(100)})
    answer = tell(other, row(1, 0, weight=1.0), row(2, 0))
    assert rounded(answer.tags) == {1: 1, 2: 0}
    assert rounded(tell(one, row(1, 1, weight=1.0), row(2, 0)).tags) == {1: 1, 2: 0}


def test_while_nobody_waits_virtual_time_is_where_the_last_have_started(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    for n in range(4):
        tell(one, charges={1: Charge(10, came=True)}, at=10 * n, in_flight=1)
    answer = tell(other, row(1, 0), row(2, 0))
    assert rounded(answer.tags) == {1: 10, 2: 0}  # 2 is ahead by one service, not by four


def test_once_nothing_waits_or_is_in_flight_debts_are_forgotten(exchanges: Exchanges) -> None:
    one = exchanges("one")
    tell(one, row(1, 0), row(2, 0))
    tell(one, row(1, 90), row(2, 0), charges={1: Charge(90)}, in_flight=1)
    tell(one, charges={2: Charge(1)})
    tags = tell(one, row(1, 1), row(2, 1), at=1).tags
    assert tags[1] == tags[2]


def test_a_node_has_all_places_while_it_is_alone_with_its_work(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    assert tell(one, row(1, 0), depth=8).places == 8
    assert tell(other, depth=8).places == 0  # there is nothing left
    answer = tell(one, row(1, 0), in_flight=8, depth=8)
    assert (answer.places, answer.in_flight, answer.wants) == (8, 8, 100)


def test_what_nobody_wants_is_at_hand_for_whoever_comes(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, depth=8, in_flight=2)
    assert tell(other, depth=8).places == 2  # a third of the six, as for one who is yet to come
    assert tell(one, depth=8, in_flight=2).places == 4


def test_places_move_to_the_node_whose_tenants_are_behind(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 0), depth=8)
    tell(other, row(2, 0), depth=8)
    tell(one, row(1, 8, in_flight=8), charges={1: Charge(8)}, in_flight=8, depth=8)
    has = {one: 8, other: 0}
    for _ in range(12):
        for exchange, tenant, tag in ((one, 1, 8), (other, 2, 0)):
            now = has[exchange] - (has[exchange] + 3) // 4  # some have ended since it looked last
            answer = tell(exchange, row(tenant, tag, in_flight=now), in_flight=now, depth=8)
            has[exchange] = max(now, answer.places)
            assert sum(has.values()) <= 8
    assert has[other] >= 4


def test_places_do_not_stay_where_the_depth_is_taken_for_the_greatest(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    has = {one: 40, other: 0}
    for _ in range(40):
        for exchange, tenant, depth in ((one, 1, 40), (other, 2, 12)):
            now = has[exchange] - (has[exchange] + 3) // 4
            answer = tell(exchange, row(tenant, 0, in_flight=now), in_flight=now, depth=depth)
            has[exchange] = max(now, answer.places)
    assert has[other] == pytest.approx(has[one], abs=2)


def test_the_depth_is_the_mean_of_what_nodes_take_it_for_by_what_they_have_in_flight(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    assert tell(one, row(1, 0, in_flight=9), in_flight=9, depth=10).places == 10
    assert tell(other, row(2, 0, in_flight=3), in_flight=3, depth=30).places == 5  # of (9 × 10 + 3 × 30) ÷ 12


def test_places_of_all_nodes_are_never_more_than_the_depth(exchanges: Exchanges) -> None:
    nodes = [exchanges(f"n{number}") for number in range(5)]
    has, told = [0] * 5, [11] * 5
    for look in range(60):
        number = look * 7 % 5
        has[number] -= min(has[number], look % 3)
        depth = told[number] = 11 if look < 40 else 6
        answer = tell(nodes[number], row(number % 3, look / 9), row(9, 0), in_flight=has[number], depth=depth)
        others = sum(has) - has[number]
        assert answer.places <= max(0, max(told) - others)  # it has fallen once all have told so
        has[number] = max(has[number], answer.places)
    assert sum(has) == 6


def test_a_node_that_tells_nothing_any_more_loses_its_places(exchanges: Exchanges, clock: Clock) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 0), in_flight=8)
    clock.sleep(LEASE_S - 0.1)
    assert tell(other, row(2, 0)).places == 0
    clock.sleep(0.2)
    assert tell(other, row(2, 0)).places == 8


def test_a_node_that_leaves_leaves_its_places(exchanges: Exchanges) -> None:
    one, other = exchanges("one"), exchanges("other")
    tell(one, row(1, 0), in_flight=8)
    assert tell(other, row(2, 0)).places == 0
    one.leave()
    assert tell(other, row(2, 0)).places == 8


def test_lanes_are_told_of_together_and_have_nothing_to_do_with_each_other(exchanges: Exchanges) -> None:
    one = exchanges("one")
    told: Sequence[Told] = [
        Told("bulk", {1: Charge(4)}, [row(1, 4), row(2, 0)], 0.0, 4, 200, 8),
        Told("transactional", {}, [row(1, 0)], 0.0, 0, 100, 3),
    ]
    answers = one.exchange(told)
    assert [answer.lane for answer in answers] == ["bulk", "transactional"]
    assert [rounded(answer.tags) for answer in answers] == [{1: 4, 2: 0}, {1: 0}]
    assert [answer.places for answer in answers] == [8, 3]
    assert one.exchange([]) == []
