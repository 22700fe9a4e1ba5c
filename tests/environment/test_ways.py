"""The ways to a server of the run's own: the first one that leads there is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from project.environment.process import ServerFailed, Way, first_of


def leads_to(url: str) -> Way:
    @contextmanager
    def way(_run_dir: Path) -> Iterator[str]:
        yield url

    return way


def closed(reason: str) -> Way:
    def way(_run_dir: Path) -> AbstractContextManager[str]:
        raise ServerFailed(reason)

    return way


def test_where_every_way_fails_each_reason_is_told(tmp_path: Path):
    with ExitStack() as stack:
        assert first_of([closed("no Docker"), closed("not root")], stack, tmp_path) == (None, "no Docker; not root")


def test_a_way_that_works_is_taken_and_those_behind_it_are_not_asked(tmp_path: Path):
    ways = [closed("no Docker"), leads_to("amqp://here//"), leads_to("amqp://there//")]
    with ExitStack() as stack:
        assert first_of(ways, stack, tmp_path) == ("amqp://here//", "")
