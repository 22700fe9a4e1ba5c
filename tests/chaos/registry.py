"""The scripts that play the faults, by number and variant."""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos.stage import Act
from tests.chaos.titles import TITLES

Script = Callable[[Act], None]
scripts: dict[str, dict[str, Script]] = {number: {} for number in TITLES}


def scenario(number: str, *variants: str) -> Callable[[Script], Script]:
    """The decorated script plays these variants of a fault."""

    def register(script: Script) -> Script:
        scripts[number].update(dict.fromkeys(variants, script))
        return script

    return register
