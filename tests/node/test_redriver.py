from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

import pytest

from scheduling.node import redriver as module
from scheduling.node.redriver import PIECES, Redriver
from scheduling.testing.clock import NOON
from tests.processes import PATIENCE_S


class Session:
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[Any]:
    """When letters were moved, by what was asked."""
    calls: SimpleQueue[Any] = SimpleQueue()

    def redrive(_connection: Any, *, now: Any) -> int:
        calls.put(now)
        return 7

    monkeypatch.setattr(module, "redrive", redrive)
    monkeypatch.setattr(module, "PIECE_S", 0.001)
    return calls


@pytest.fixture
def redriver() -> Iterator[Redriver]:
    made = Redriver(Session)  # type: ignore[arg-type]
    made.start()
    yield made
    made.stop(timeout_s=5)


def test_a_second_is_moved_in_pieces_and_no_more_until_it_is_asked_for_again(
    moves: SimpleQueue[Any], redriver: Redriver
) -> None:
    redriver.ask(NOON)
    assert [moves.get(timeout=PATIENCE_S) for _ in range(PIECES)] == [NOON] * PIECES
    with pytest.raises(Empty):
        moves.get(timeout=0.1)


def test_where_nothing_is_to_be_moved_or_it_fails_it_waits_until_it_is_asked_again(
    redriver: Redriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: SimpleQueue[int] = SimpleQueue()

    def nothing(_connection: Any, *, now: Any) -> int:
        calls.put(0)
        return 0

    def fails(_connection: Any, *, now: Any) -> NoReturn:
        calls.put(1)
        raise RuntimeError("no")

    for attempt in (nothing, fails):
        monkeypatch.setattr(module, "redrive", attempt)
        redriver.ask(NOON)
        assert calls.get(timeout=PATIENCE_S) == (attempt is fails)
        with pytest.raises(Empty):
            calls.get(timeout=0.2)
