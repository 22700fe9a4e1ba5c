"""Alike failures have one fingerprint, others have others."""

from __future__ import annotations

import pytest

from scheduling.core.fingerprint import DIGITS, essence, fingerprint, first_line

TRACE = """Traceback (most recent call last):
  File "/srv/{release}/billing/tasks.py", line {line}, in charge
    pay(order)
  File "/srv/{release}/billing/bank.py", line {line}, in {function}
    raise ValueError(order)
ValueError: order
"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'alice'", "KeyError: 'bob'"),
        ('no user "a b"', 'no user ""'),
        ("can't open 'a'", "can't open 'b'"),
        ("invalid start byte in b'\\x91'", "invalid start byte in b'\\xff\\xfe'"),
        ("order 17 of 3.5 s", "order 4 of 12.25 s"),
        ("at 0x7f1c3a", "at 0xdeadbe"),
        ("fire 019c1a2b-0000-8000-8000-000000000001", "fire 019c1a2b-1111-8fff-9fff-abcdefabcdef"),
        ("commit 3599ca7ca59cac91", "commit aaaabbbbcccc0000"),
        ("boom\nfirst details", "boom\nother details"),
        ("\n  boom  ", "boom"),
    ],
)
def test_what_differs_from_fire_to_fire_does_not_count(one, other):
    assert essence(one) == essence(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'alice'", "ValueError: 'alice'"),
        ("it isn't open, and won't be", "it isn't here, and won't be"),
        ("the facade is closed", "the cascade is closed"),  # eight letters may be hexadecimal ones
        ("defaced effaced", "effaced defaced"),
    ],
)
def test_what_is_said_counts(one, other):
    assert essence(one) != essence(other)


def test_frames_count_by_file_and_function_and_not_by_line_or_release():
    def trace(**names: object) -> str:
        return TRACE.format(**({"release": "v1", "line": 1, "function": "pay"} | names))

    one = essence("ValueError: order", trace())
    assert one == essence("ValueError: order", trace(release="v2", line=99))
    assert one != essence("ValueError: order", trace(function="refund"))
    assert one.endswith("tasks.py:charge\nbank.py:pay")


def test_only_the_innermost_frames_count():
    frames = [f'  File "a.py", line 1, in f{number}' for number in range(9)]

    assert essence("x", "\n".join(frames)) == "x\na.py:f6\na.py:f7\na.py:f8"


def test_task_and_reason_are_kept_apart():
    prints = {fingerprint("t", "gave_up", "x"), fingerprint("u", "gave_up", "x"), fingerprint("t", "cancelled", "x")}

    assert len(prints) == 3
    assert {len(one) for one in prints} == {DIGITS}


def test_a_text_of_any_length_costs_little():
    assert len(essence("'" * 1_000_000 + "x")) < 300
    assert first_line("") == ""
