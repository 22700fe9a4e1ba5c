"""Secrets among arguments are hidden by their keys, at any depth, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.masking import HIDDEN, TOO_DEEP, Mask, mask
from scheduling.core.message import canonical_json

KEYS = st.sampled_from(["customer", "password", "api_key", "card", "shipping", "X-Auth-Token", 'a "quoted" key', "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(['", "token": ', "\\", "\\\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    "key",
    [
        "password", "Password", "db_password_2", "PASSWD", "client-secret", "accessToken", "access_token", "token",
        "api_key", "apiKey", "X-Api-Key", "APIKEY", "Authorization", "Cookie", "set-cookie", "session_id",
        "credentials", "private_key", "privateKey", "card_number", "cvv", "cardCvv", "CVC", "pin", "user_pin", "PIN",
        "auth", "basicAuth",
    ],
)  # fmt: skip
def test_a_key_of_a_secret_is_known_however_it_is_written(key: str) -> None:
    assert mask({key: "s"}) == {key: HIDDEN}


@pytest.mark.parametrize(
    "key", ["customer", "key", "shipping", "author", "classname", "passenger", "opinion", "card", "company", "id", ""]
)
def test_a_key_that_only_looks_alike_is_shown(key: str) -> None:
    assert mask({key: "s"}) == {key: "s"}


def test_values_are_hidden_at_any_depth_whatever_they_are_and_the_value_given_stays_as_it_is() -> None:
    given = {"a": [{"token": {"deep": [1]}}, ({"pin": 7},)], "password": None, "secret": ""}
    assert mask(given) == {"a": [{"token": HIDDEN}, [{"pin": HIDDEN}]], "password": None, "secret": HIDDEN}
    assert given["a"][0] == {"token": {"deep": [1]}}  # type: ignore[index]


def test_other_words_take_the_place_of_ours_and_none_hides_nothing() -> None:
    assert mask({"iban": 1, "password": 2, "x_iban": 3}, ["IBAN"]) == {"iban": HIDDEN, "password": 2, "x_iban": HIDDEN}
    assert mask({"password": 2}, []) == {"password": 2}


def test_what_is_nested_without_an_end_is_cut_and_never_an_error() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert TOO_DEEP in repr(mask(deep))


@settings(max_examples=50)
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.integers(1, 200))
def test_the_beginning_of_a_text_is_that_of_its_masked_value(value: dict[str, Any], length: int) -> None:
    text = canonical_json(value)
    masked = canonical_json(mask(value))
    shown = Mask().beginning(text, length)
    assert shown in (masked[:length], text[:length])
    if max(len(text), len(masked)) <= length:  # "********" is longer than a short secret
        assert json.loads(shown) == mask(value)


@settings(max_examples=50)
@given(st.text(alphabet='abc"\\: {}[],password', max_size=60))
def test_no_text_is_an_error(text: str) -> None:
    Mask().beginning(text, 20)


def test_a_secret_is_hidden_also_where_its_text_goes_on_beyond_the_beginning() -> None:
    text = canonical_json({"token": "s" * 3000, "z": 1})
    assert Mask().beginning(text, 1024) == canonical_json({"token": HIDDEN, "z": 1})
    behind = canonical_json({"a": "x" * 2000, "token": "s"})
    assert Mask().beginning(behind, 1024) == behind[:1024]
