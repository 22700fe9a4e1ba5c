"""The agenda beside a plain dictionary."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from fairness.core.agenda import SLACK, Agenda

times = st.integers(0, 20).map(float) | st.just(inf)
steps = st.lists(
    st.tuples(st.just("set"), st.integers(0, 9), times)
    | st.tuples(st.just("discard"), st.integers(0, 9), st.just(0.0))
    | st.tuples(st.just("pop"), st.just(0), times),
    max_size=60,
)


@given(steps)
def test_it_says_what_a_dictionary_would_say(steps: list[tuple[str, int, float]]) -> None:
    agenda: Agenda[int] = Agenda()
    model: dict[int, float] = {}
    for what, member, at in steps:
        if what == "set":
            agenda.set(member, at)
            model.pop(member, None)
            model[member] = at
        elif what == "discard":
            agenda.discard(member)
            model.pop(member, None)
        else:
            due = sorted((each for each in model if model[each] <= at), key=model.__getitem__)
            assert agenda.pop_due(at) == due
            for each in due:
                del model[each]
        assert set(agenda) == set(model)
        assert len(agenda) == len(model)
        assert agenda.first_at() == min(model.values(), default=inf)
        assert all((each in agenda) == (each in model) for each in range(10))
        assert [agenda.time_of(each) for each in range(10)] == [model.get(each, inf) for each in range(10)]


def test_what_moves_for_ever_takes_no_memory() -> None:
    agenda: Agenda[int] = Agenda()
    for number in range(10_000):
        agenda.set(number % 3, number)
    assert len(agenda._heap) <= 2 * 3 + SLACK
    for number in range(10_000):
        agenda.set(number, number)
    for number in range(10_000):
        agenda.discard(number)
    assert len(agenda._heap) <= SLACK
