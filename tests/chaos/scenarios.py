"""All faults that a run can play; importing this module knows them."""

from __future__ import annotations

from tests.chaos.order import Injection
from tests.chaos.registry import scripts
from tests.chaos.scripts import broker, edits, floods, limits, messages, network, nodes, rows, services, workers
from tests.chaos.stage import WARM_UP_S, Act, Stage

# Each has registered its own.
MODULES = (broker, edits, floods, limits, messages, network, nodes, rows, services, workers)


def scenarios() -> dict[str, list[str]]:
    """The variants of each."""
    return {number: list(variants) for number, variants in scripts.items()}


def carry_out(stage: Stage, injection: Injection) -> Act:
    """Warm up, fault, heal, recover."""
    act = Act(stage, injection)
    act.lasts(WARM_UP_S + act.rng.random())  # at no fixed moment of a second
    scripts[injection.scenario][injection.variant](act)
    act.ends()
    return act
