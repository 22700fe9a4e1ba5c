"""The ledger of delivery tags, with confirms in every order in which brokers send them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduling.broker.confirms import ConfirmLedger


def ledger(count: int) -> ConfirmLedger[int]:
    """Messages are their own tags, from 1."""
    made: ConfirmLedger[int] = ConfirmLedger()
    for tag in range(1, count + 1):
        made.sent(tag)
    return made


def test_one_tag_settles_one_message() -> None:
    assert ledger(3).settle(2, multiple=False) == ([2], [])


def test_multiple_settles_all_lower_ones_that_are_still_open() -> None:
    open_ones = ledger(6)
    assert open_ones.settle(5, multiple=False) == ([5], [])
    assert open_ones.settle(3, multiple=True) == ([1, 2, 3], [])
    assert open_ones.settle(6, multiple=True) == ([4, 6], [])
    assert len(open_ones) == 0


def test_a_tag_that_comes_again_settles_nothing() -> None:
    open_ones = ledger(2)
    open_ones.settle(2, multiple=True)
    assert open_ones.settle(2, multiple=True) == ([], [])
    assert open_ones.settle(1, multiple=False) == ([], [])


def test_a_lower_multiple_after_a_higher_one_settles_nothing_and_does_no_harm() -> None:
    open_ones = ledger(4)
    open_ones.settle(3, multiple=True)
    assert open_ones.settle(2, multiple=True) == ([], [])
    open_ones.sent(5)
    assert open_ones.settle(5, multiple=True) == ([4, 5], [])


def test_tag_zero_with_multiple_means_every_message_so_far() -> None:
    open_ones = ledger(3)
    assert open_ones.settle(0, multiple=True) == ([1, 2, 3], [])
    open_ones.sent(4)
    assert open_ones.settle(4, multiple=True) == ([4], [])


def test_a_multiple_beyond_the_last_message_does_not_swallow_later_ones() -> None:
    open_ones = ledger(2)
    assert open_ones.settle(9, multiple=True) == ([1, 2], [])
    open_ones.sent(3)
    assert open_ones.settle(3, multiple=True) == ([3], [])


def test_the_ack_of_a_returned_message_is_not_its_confirm() -> None:
    open_ones = ledger(4)
    assert open_ones.mark_returned(lambda message: message == 2) == 2
    assert open_ones.settle(3, multiple=True) == ([1, 3], [2])


def test_a_returned_message_keeps_its_mark_across_confirms_of_others() -> None:
    open_ones = ledger(3)
    open_ones.mark_returned(lambda message: message == 1)
    assert open_ones.settle(3, multiple=False) == ([3], [])
    assert open_ones.settle(1, multiple=False) == ([], [1])


def test_the_same_message_sent_twice_is_returned_twice() -> None:
    open_ones: ConfirmLedger[str] = ConfirmLedger()
    for message in ("a", "b", "a"):
        open_ones.sent(message)
    for _ in range(2):
        open_ones.mark_returned(lambda message: message == "a")
    assert open_ones.settle(3, multiple=True) == (["b"], ["a", "a"])


def test_a_return_of_something_unknown_marks_nothing() -> None:
    open_ones = ledger(2)
    assert open_ones.mark_returned(lambda message: message == 7) is None
    assert open_ones.settle(2, multiple=True) == ([1, 2], [])


def test_a_return_out_of_order_is_found_all_the_same() -> None:
    open_ones = ledger(5)
    assert open_ones.mark_returned(lambda message: message == 4) == 4
    assert open_ones.mark_returned(lambda message: message == 2) == 2
    assert open_ones.settle(5, multiple=True) == ([1, 3, 5], [2, 4])


def test_abandon_gives_what_is_open_oldest_first() -> None:
    open_ones = ledger(4)
    open_ones.settle(2, multiple=False)
    assert open_ones.abandon() == [1, 3, 4]
    assert len(open_ones) == 0


def test_expired_messages_are_settled_by_nothing_that_comes_later() -> None:
    open_ones = ledger(4)
    open_ones.settle(2, multiple=False)
    open_ones.mark_returned(lambda message: message == 3)
    assert open_ones.expire(open_ones.next_tag - 1) == [1, 3]
    assert open_ones.settle(3, multiple=True) == ([], [])
    assert open_ones.settle(4, multiple=True) == ([4], [])


steps = st.lists(
    st.one_of(
        st.just("send"),
        st.tuples(st.just("return"), st.integers(1, 30)),
        st.tuples(st.just("settle"), st.integers(0, 30), st.booleans()),
    ),
    max_size=60,
)


@given(steps)
def test_it_agrees_with_a_plain_set_of_open_tags(steps: list[object]) -> None:
    real: ConfirmLedger[int] = ConfirmLedger()
    sent, open_tags, returned = 0, set[int](), set[int]()
    for step in steps:
        match step:
            case "send":
                sent += 1
                real.sent(sent)
                open_tags.add(sent)
            case ("return", int(tag)):
                real.mark_returned(lambda message, tag=tag: message == tag)  # type: ignore[misc]
                returned |= {tag} & open_tags
            case ("settle", int(tag), bool(multiple)):
                named = {one for one in open_tags if one == tag or (multiple and (one < tag or tag == 0))}
                decided, back = real.settle(tag, multiple=multiple)
                assert (set(decided), set(back)) == (named - returned, named & returned)
                open_tags -= named
                returned -= named
    assert sorted(open_tags) == real.abandon()
