"""Service URLs as people may see them: without their passwords."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(://[^:@/]*:)(?P<userinfo>[^/]+)(@)|([?&]password=)(?P<query>[^&]+)")


def masked(url: str) -> str:
    """The URL, or several joined by `;`, with `***` in place of each password."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[4]}***{found[3] or ''}", url)


def without_password(message: str, url: str) -> str:
    """A driver's message on one line, with the passwords of `url` masked in it."""
    for found in _PASSWORD.finditer(url):
        message = message.replace(found["userinfo"] or found["query"], "***")
    return " ".join(message.split())


def is_amqp(url: str) -> bool:
    """Whether the URL names a RabbitMQ, as opposed to another broker that kombu speaks to."""
    return url.startswith(("amqp://", "amqps://", "pyamqp://"))
