"""A node in a thread of its own, beside the loop of the process that it lives in."""

from __future__ import annotations

from threading import Thread

from django.conf import settings

from scheduling.conf import scheduling_settings
from scheduling.core.errors import FairbeatError
from scheduling.services.run_node import Runnable, build_node, default_node_id, run_beside


def configured_node() -> Runnable:
    """That of the settings, with what stands beside it. Raises FairbeatError, ValueError (wrong settings)."""
    configured = scheduling_settings(settings)
    node = build_node(configured, node_id=default_node_id())
    run_beside(configured, node)
    return node


class RunningNode:
    """Started once, stopped once. The thread is a daemon: one that does not drain keeps no process from ending."""

    def __init__(self, node: Runnable) -> None:
        self._node = node
        self._problem: FairbeatError | None = None
        self._thread = Thread(target=self._run, name="fairbeat node", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ended(self) -> str:
        """Why it ended without having been told to; empty while it runs."""
        if self._thread.is_alive():
            return ""
        return str(self._problem) if self._problem else "the node has ended; its log says why"

    def stop(self, *, timeout_s: float) -> bool:
        """Drain it, for so long at most; False if it did not end. Safe in a signal handler."""
        self._node.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._node.run()
        except FairbeatError as problem:
            self._problem = problem
