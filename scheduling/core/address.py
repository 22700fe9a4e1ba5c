"""An address to listen at, as settings and command lines say it."""

from __future__ import annotations

from scheduling.core.errors import InvalidField


def host_and_port(text: str) -> tuple[str, int]:
    """An IPv6 address is in brackets, and comes without them; port 0 is any free one.

    Raises InvalidField.

    >>> host_and_port("[::1]:8081")
    ('::1', 8081)
    """
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidField("address", text, "is not HOST:PORT, such as 127.0.0.1:8081")
    return host, int(port)
