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
KEY_ENDS = '": '  # in JSON as canonical_json and Postgres write it
REMEMBERED = 4096  # keys, and beginnings of long texts
SHORT = 200  # characters: looked through faster than looked up
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
        self._long_has_secret = lru_cache(maxsize=REMEMBERED)(self._has_secret)

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
        """The first characters of a JSON text, masked. Each message needs it, and most are short and have no secret."""
        if KEY_ENDS not in text:
            return text[:length]
        shown = text[:length]
        has_secret = self._has_secret(text) if len(text) <= SHORT else self._long_has_secret(shown)
        return self._masked(text)[:length] if has_secret else shown

    def _under(self, key: Any, value: Any, depth: int) -> Any:
        if value is not None and isinstance(key, str) and self.hides(key):
            return HIDDEN
        return self.value(value, depth=depth)

    def _has_secret(self, text: str) -> bool:
        if "\\" in text:
            return any(colon and self.hides(key) for key, colon in _TEXT_IN_JSON.findall(text))
        hides = self.hides
        for piece in text.split(KEY_ENDS):  # noqa: SIM110  (the last has no key; any() would cost half as much again)
            if hides(piece[piece.rfind('"') + 1 :]):
                return True
        return False

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
