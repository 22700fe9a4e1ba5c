from __future__ import annotations

import pytest

from scheduling.core.gates import BROKER, FIRST_S, LONGEST_S, Gates

GATE = (1, "bulk")


def test_a_gate_that_was_never_closed_is_open() -> None:
    assert Gates().opens_at(GATE) == 0.0


def test_a_refusal_closes_for_fifty_milliseconds_doubling_to_a_second_while_refusals_go_on() -> None:
    gates, now, pauses = Gates(), 100.0, []
    for _ in range(7):
        gates.close(GATE, now)
        pauses.append(round(gates.opens_at(GATE) - now, 3))
        now = gates.opens_at(GATE)
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_refusals_of_what_was_sent_before_the_gate_closed_do_not_lengthen_the_closure() -> None:
    gates = Gates()
    for late in range(100):
        gates.close(GATE, 100.0 + late / 10_000)
    assert gates.opens_at(GATE) == 100.0 + FIRST_S


def test_a_refusal_long_after_the_last_starts_from_the_shortest_closure() -> None:
    gates = Gates()
    gates.close(GATE, 100.0)
    gates.close(GATE, 100.05)
    again = gates.opens_at(GATE) + LONGEST_S
    gates.close(GATE, again)
    assert gates.opens_at(GATE) == again + FIRST_S


def test_a_success_after_it_opened_starts_the_next_refusal_from_the_shortest_closure() -> None:
    gates = Gates()
    gates.close(GATE, 100.0)
    gates.succeed(GATE, 100.05)
    gates.close(GATE, 100.06)
    assert gates.opens_at(GATE) == pytest.approx(100.06 + FIRST_S)


def test_a_success_of_what_was_sent_before_does_not_open_a_closed_gate() -> None:
    gates = Gates()
    gates.close(GATE, 100.0)
    gates.succeed(GATE, 100.01)
    assert gates.opens_at(GATE) == 100.0 + FIRST_S


def test_a_closed_gate_leaves_the_others_open() -> None:
    gates = Gates()
    gates.close(GATE, 100.0)
    assert gates.opens_at((2, "bulk")) == 0.0
    assert gates.opens_at((1, "transactional")) == 0.0


def test_what_passes_several_gates_waits_for_the_last_to_open() -> None:
    gates = Gates()
    gates.close(GATE, 100.0)
    gates.close(BROKER, 200.0)
    assert gates.opens_at(BROKER, GATE) == gates.opens_at(GATE, BROKER) == gates.opens_at(BROKER)
    assert gates.opens_at(GATE, (2, "bulk")) == gates.opens_at(GATE)
