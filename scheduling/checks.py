"""System checks: what is wrong with the settings, said at start."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from scheduling.conf import problems


@register
def check_settings(**_: Any) -> list[CheckMessage]:
    return [Error(problem, id="scheduling.E001") for problem in problems(settings)]
