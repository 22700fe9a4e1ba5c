"""What Celery can make a request of."""

from __future__ import annotations

from typing import Any

import pytest

from fairness.core.message_shape import problem_of

HEADERS = {"task": "send", "id": "7"}
BODY: list[Any] = [[1], {"to": "bob"}, None]


@pytest.mark.parametrize(
    ("headers", "payload"),
    [
        (HEADERS, BODY),
        (HEADERS | {"eta": None, "expires": "2026-03-02T12:00:00+00:00", "timelimit": [3600.0, None]}, BODY),
        (HEADERS | {"timelimit": None, "stamped_headers": None, "stamps": {}}, ((), {}, {"chord": None})),
        (HEADERS | {"stamped_headers": ["release"], "stamps": {"release": "7"}}, BODY),
        ({}, HEADERS | {"args": [1], "kwargs": {}}),  # protocol 1
        (HEADERS, {"args": [1]}),  # of both
    ],
)
def test_a_message_of_either_protocol_is_one(headers: dict[str, Any], payload: Any) -> None:
    assert problem_of(headers, payload) == ""


@pytest.mark.parametrize(
    ("headers", "payload", "field"),
    [
        ({}, BODY, "task"),
        ({"task": ["send"], "id": "7"}, BODY, "task"),
        ({"task": "send"}, BODY, "id"),
        ({}, {"task": "send", "id": 7}, "id"),
        (HEADERS | {"eta": 12}, BODY, "eta"),
        (HEADERS | {"root_id": b"7"}, BODY, "root_id"),
        (HEADERS | {"timelimit": 5}, BODY, "timelimit"),
        (HEADERS | {"timelimit": ["soon", None]}, BODY, "timelimit"),
        (HEADERS | {"stamped_headers": 5}, BODY, "stamped_headers"),
        (HEADERS | {"stamps": "x"}, BODY, "stamps"),
        (HEADERS, 5, "its body"),
        (HEADERS, "text", "its body"),
        (HEADERS, [[], {}], "its body"),
        (HEADERS, [5, {}, None], "args"),
        (HEADERS, [[], [], None], "kwargs"),
        (HEADERS, [[], {}, 5], "embed"),
        (HEADERS, {"args": 5}, "args"),
    ],
)
def test_what_a_worker_would_end_at_is_none_and_the_field_is_named(
    headers: dict[str, Any], payload: Any, field: str
) -> None:
    assert problem_of(headers, payload).startswith(field)
