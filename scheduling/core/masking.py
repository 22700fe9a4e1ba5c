"""What is not shown of arguments: values under keys that look like secrets.

::

    {"customer": 42, "api_key": "k-123", "card": {"cvv": "007"}}
    {"customer": 42, "api_key": "********", "card": {"cvv": "********"}}

A key is compared by its letters and digits alone, so ``apiKey``, ``api_key`` and ``X-Api-Key`` are alike. A word of
five letters and more may stand anywhere in it (``secret`` in ``client_secret_2``); a shorter one has to be a whole
part of it (``pin`` in ``card_pin``, and not in ``shipping``).

Pure, and cheap where there is nothing to hide. Does not look at values: a password in the middle of a text, or at a
place in a list, is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

HIDDEN = "********"
TOO_DEEP = "…"
DEEPEST = 100  # arrays and objects inside one another: more than a job may have
REMEMBERED = 16_384  # keys, and beginnings of texts, most of them some dozens of characters
WHOLE_PART = 4  # letters: a word that is not longer has to be a whole part of the key
DEFAULT_MASK_KEYS = (
    "password", "passwd", "passphrase", "passcode", "pwd", "pass", "secret", "token", "apikey", "accesskey",
    "privatekey", "signingkey", "encryptionkey", "authorization", "auth", "bearer", "cookie", "session", "credential",
    "signature", "jwt", "otp", "pin", "cvv", "cvc", "cardnumber", "creditcard", "iban", "ssn",
)  # fmt: skip

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
# A text of JSON, up to where it was cut, and the colon behind a key. It takes each whole, so that it never looks at a
# character twice.
_TEXT_IN_JSON = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(: )?)?')


class Mask:
    """``words`` are what the keys of secrets contain; without any, nothing is hidden."""

    def __init__(self, words: Iterable[str] = DEFAULT_MASK_KEYS) -> None:
        plain = {_letters(word) for word in words} - {""}
        self._anywhere = tuple(sorted(word for word in plain if len(word) > WHOLE_PART))
        self._parts = frozenset(word for word in plain if len(word) <= WHOLE_PART)
        self.hides = lru_cache(maxsize=REMEMBERED)(self._hides)
        self._has_secret = lru_cache(maxsize=REMEMBERED)(self._has_key_that_hides)

    def value(self, value: Any, *, depth: int = 0) -> Any:
        """A JSON value, with what is under such keys hidden, and what is too deep. None stays: it tells nothing."""
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth == DEEPEST:
            return TOO_DEEP
        if isinstance(value, Mapping):
            return {key: self._under(key, inner, depth + 1) for key, inner in value.items()}
        return [self.value(inner, depth=depth + 1) for inner in value]

    def beginning(self, text: str, length: int) -> str:
        """The first characters of a JSON text, masked. Each message needs it: whether a text has a secret is kept."""
        shown = text[:length]
        return self._masked(text)[:length] if self._has_secret(shown) else shown

    def _under(self, key: Any, value: Any, depth: int) -> Any:
        if value is not None and isinstance(key, str) and self.hides(key):
            return HIDDEN
        return self.value(value, depth=depth)

    def _has_key_that_hides(self, text: str) -> bool:
        return any(map(self.hides, _keys(text)))

    def _masked(self, text: str) -> str:
        try:
            return json.dumps(self.value(json.loads(text)))
        except (ValueError, RecursionError):  # nobody knows what is secret in it
            return HIDDEN

    def _hides(self, key: str) -> bool:
        letters = _letters(key)
        if any(word in letters for word in self._anywhere):
            return True
        return bool(self._parts) and not self._parts.isdisjoint(part.lower() for part in _PART.findall(key))


def _keys(text: str) -> list[str]:
    """What stands before a colon in JSON, perhaps cut off, as canonical_json and Postgres write it; and perhaps a piece
    of a text that is no key.
    """
    if "\\" in text:
        return [key for key, colon in _TEXT_IN_JSON.findall(text) if colon]
    return [piece[piece.rfind('"') + 1 :] for piece in text.split('": ')[:-1]]


def _letters(key: str) -> str:
    return "".join(filter(str.isalnum, key)).lower()


@cache
def mask_of(words: tuple[str, ...]) -> Mask:
    """The mask of these words, one for all who ask."""
    return Mask(words)


DEFAULT = mask_of(DEFAULT_MASK_KEYS)


def mask(value: Any, words: Iterable[str] = DEFAULT_MASK_KEYS) -> Any:
    """``value`` without what stands under keys that look like secrets.

    >>> mask({"customer": 42, "login": [{"Api-Key": "k-123"}]})
    {'customer': 42, 'login': [{'Api-Key': '********'}]}
    """
    return mask_of(tuple(words)).value(value)
