"""Whether Celery can make a request of a message: the shape of its headers and of its decoded body.

Celery trusts them, and a worker ends at a header or a body of a type that it does not expect. Both protocols: version 2
has all but the arguments in headers, version 1 in its body. Pure; does not do: know the tasks, read the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

OBJECT = (dict, Mapping)  # nearly all are the first, and are known by that at once
LIST = (list, tuple, Sequence)
TEXTS = ("root_id", "parent_id", "shadow", "eta", "expires", "argsrepr", "kwargsrepr")


def problem_of(headers: Mapping[str, Any], payload: Any) -> str:
    """Why Celery could not make a request of a message, or would fail at it; empty: it can.

    >>> problem_of({"task": "send", "id": "7"}, [[], {}, None])
    ''
    >>> problem_of({"task": "send", "id": "7"}, 5)
    'its body is neither [args, kwargs, embed] nor an object'
    """
    fields = headers
    if "task" not in headers and isinstance(payload, Mapping):
        fields = {**headers, **payload}  # protocol 1 has all in its body
    for name in ("task", "id"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            return f"{name} {fields.get(name)!r:.100}: is no text"
    for name in TEXTS:
        if (text := fields.get(name)) is not None and not isinstance(text, str):
            return f"{name} {text!r:.100}: is no text"
    return _problem_of_limits(fields) or _problem_of_stamps(fields) or _problem_of_body(payload)


def _problem_of_limits(fields: Mapping[str, Any]) -> str:
    if limits := fields.get("timelimit"):
        is_pair = isinstance(limits, LIST) and len(limits) == 2
        if not is_pair or not all(limit is None or isinstance(limit, int | float) for limit in limits):
            return f"timelimit {limits!r:.100}: is no pair of seconds"
    return ""


def _problem_of_stamps(fields: Mapping[str, Any]) -> str:
    names = fields.get("stamped_headers") or ()
    if not isinstance(names, LIST) or not all(isinstance(name, str) for name in names):
        return f"stamped_headers {names!r:.100}: is no list of texts"
    if (stamps := fields.get("stamps")) and not isinstance(stamps, OBJECT):
        return f"stamps {stamps!r:.100}: is no object"
    return ""


def _problem_of_body(payload: Any) -> str:
    if isinstance(payload, list | tuple) and len(payload) == 3:
        args, kwargs, embed = payload
    elif isinstance(payload, Mapping):
        args, kwargs, embed = payload.get("args", ()), payload.get("kwargs", {}), None
    else:
        return "its body is neither [args, kwargs, embed] nor an object"
    if not isinstance(args, list | tuple):
        return f"args {args!r:.100}: is no list"
    if not isinstance(kwargs, OBJECT):
        return f"kwargs {kwargs!r:.100}: is no object"
    if embed is not None and not isinstance(embed, OBJECT):
        return f"embed {embed!r:.100}: is no object"
    return ""
