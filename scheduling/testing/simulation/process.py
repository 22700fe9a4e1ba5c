"""Something that runs, and may freeze or die: a node, a worker."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.testing.simulation.world import World


class Process:
    """What was to happen while it is frozen happens when it wakes, in order; after its death nothing does."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.is_alive = True
        self._is_frozen = False
        self._held: list[Callable[[], None]] = []

    def after(self, delay_s: float, do: Callable[[], None]) -> None:
        self.world.after(delay_s, lambda: self._run(do))

    def _run(self, do: Callable[[], None]) -> None:
        if self._is_frozen:
            self._held.append(do)
        elif self.is_alive:
            do()

    def freeze(self, for_s: float) -> None:
        if self._is_frozen or not self.is_alive:
            return
        self.world.note(self.name, "freezes", f"{for_s:.2f} s")
        self._is_frozen = True
        self.world.after(for_s, self._wake)

    def _wake(self) -> None:
        self._is_frozen = False
        if not self.is_alive:
            return
        self.world.note(self.name, "wakes")
        held, self._held = self._held, []
        for do in held:
            self._run(do)

    def die(self) -> None:
        self.world.note(self.name, "dies")
        self.is_alive = False
        self._held.clear()
