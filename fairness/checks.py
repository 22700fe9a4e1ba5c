"""System checks: what Django says at each start of a process."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Warning, register  # noqa: A004  (as scheduling's)

from fairness import native


@register
def check_compiled(**_: Any) -> list[CheckMessage]:
    outdated = [source.name for source in native.outdated()]
    if not outdated:
        return []
    return [
        Warning(
            f"fairness/core: {', '.join(outdated)} changed after it was compiled, and what was compiled is what runs.",
            hint="make native, or make pure.",
            id="fairness.W001",
        )
    ]
