"""Which fault comes when: all scenarios before one repeats, in an order that the seed decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Injection:
    """``seed`` decides the details: which node, how long."""

    scenario: str
    variant: str
    seed: int


def injections(scenarios: Mapping[str, Sequence[str]], *, seed: int) -> Iterator[Injection]:
    """Without end. ``scenarios`` has the variants of each; of those, too, all are used before one repeats."""
    rng = Random(seed)
    decks = {scenario: _deck(variants, rng) for scenario, variants in scenarios.items()}
    for scenario in _deck(list(scenarios), rng):
        yield Injection(scenario, next(decks[scenario]), rng.getrandbits(32))


def _deck(cards: Sequence[str], rng: Random) -> Iterator[str]:
    while True:
        yield from rng.sample(cards, len(cards))
