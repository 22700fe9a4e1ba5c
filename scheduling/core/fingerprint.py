"""Fingerprints of failures: alike for those that died of the same, so that a thousand dead letters read as three.

::

    the task, the reason of its death, and the essence of what was raised  ──sha256──▶  16 hex digits

The essence is the error's first line without what differs from fire to fire (numbers, hexadecimal ids, quoted texts),
and the innermost frames of its traceback by file and function: a line number changes with every release. The hash is
one that Postgres has as well, since most dead letters are written by a statement: ``dead_letters.sql`` computes the
same, and takes the essence from here. Does not do: tell errors apart that differ in a quoted name alone.
"""

from __future__ import annotations

import re
from hashlib import sha256

DIGITS = 16
FRAMES = 3  # innermost; the outer ones are those of whoever calls tasks
TEXT_LIMIT = 200  # characters of the error that count
_BETWEEN = "\x1f"  # the unit separator, which no error holds

_VARYING = re.compile(
    r"(?<!\w)[bru]{0,2}(?:'[^']*'(?!\w)|\"[^\"]*\")|`[^`]*`"  # quoted; an apostrophe within a word is none
    r"|\b(?=[0-9a-f-]*\d)[0-9a-f]{8}[0-9a-f-]*\b"  # UUIDs, hashes
    r"|\b0x[0-9a-f]+\b"
    r"|\d+",
    re.IGNORECASE,
)
_FRAME = re.compile(r'^ *File "(?P<file>[^"]*)", line \d+, in (?P<function>.*)$', re.MULTILINE)


def essence(error: str, traceback: str = "") -> str:
    """What is the same in failures of one kind.

    >>> essence("KeyError: 'alice'") == essence("KeyError: 'bob'")
    True
    >>> essence("order 17 took 3.5 s at 0x7f1c")
    'order … took ….… s at …'
    """
    text = _VARYING.sub("…", first_line(error))[:TEXT_LIMIT]
    frames = [f"{found['file'].rpartition('/')[2]}:{found['function']}" for found in _FRAME.finditer(traceback)]
    return "\n".join([text, *frames[-FRAMES:]])


def fingerprint(task: str, reason: str, of_error: str = "") -> str:
    """``of_error`` is its ``essence``; empty where nothing was raised."""
    return sha256(_BETWEEN.join((task, reason, of_error)).encode()).hexdigest()[:DIGITS]


def first_line(error: str) -> str:
    """Of a text of any length."""
    return error.lstrip()[:2_000].partition("\n")[0].rstrip()
