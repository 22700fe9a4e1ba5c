"""The demo meets a database: it takes what is empty or its own, and never somebody's data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from project.demo import database, stage
from project.demo.database import NotTheDemos, is_to_be_emptied, own_database
from scheduling.models import Job, Node


@pytest.fixture
def url(process_env: dict[str, str]) -> Iterator[str]:
    _unmark()  # a demo that another test has run in this database left its mark
    yield process_env["DATABASE_URL"]
    _unmark()


def _unmark() -> None:
    with connection.cursor() as cursor:
        cursor.execute("COMMENT ON TABLE demo_effect IS NULL")


def test_an_empty_database_is_taken_and_marked(url: str):
    assert not is_to_be_emptied(url)
    stage.make_tables(empty_first=False)
    assert is_to_be_emptied(url)


def test_a_database_with_jobs_is_refused(url: str):
    Job.objects.cron("t", "0 6 * * *", name="somebody's")

    with pytest.raises(NotTheDemos, match="holds jobs that the demo did not make"):
        is_to_be_emptied(url)


def test_a_database_of_an_earlier_demo_is_emptied(url: str):
    stage.make_tables(empty_first=False)
    Job.objects.cron("t", "0 6 * * *", name="the demo's")

    assert is_to_be_emptied(url)
    stage.make_tables(empty_first=True)
    assert not Job.objects.exists()


def test_a_database_on_which_a_node_runs_is_refused_also_if_it_is_marked(url: str):
    stage.make_tables(empty_first=False)
    now = timezone.now()
    Node.objects.create(id="n", started_at=now, lease_until=now + timedelta(minutes=1))

    with pytest.raises(NotTheDemos, match="a scheduler node is running"):
        is_to_be_emptied(url)


def test_a_server_of_its_own_gets_a_new_database_each_time(url: str, unique: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database, "OWN_DATABASE", unique)
    try:
        for _ in range(2):
            made = own_database(url)
            with psycopg.connect(made) as new:
                new.execute("CREATE TABLE leftover ()")
        assert made.endswith(f"/{unique}")
        assert not is_to_be_emptied(made)
    finally:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f'DROP DATABASE "{unique}" WITH (FORCE)')
