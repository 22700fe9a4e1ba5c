"""A database for tests that look at it through several sessions: what they write is committed, and then cleared away.

By DELETE: pytest-django's way, a TRUNCATE of every table and partition, takes longer than most of these tests. A
conftest imports both fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import setup_databases, teardown_databases
from pytest_django import DjangoDbBlocker

CLEAN = """
DELETE FROM scheduling_fire;
DELETE FROM scheduling_jobrun;
DELETE FROM scheduling_deadletter;
DELETE FROM scheduling_redrive;
DELETE FROM scheduling_step;
DELETE FROM scheduling_workertask;
DELETE FROM scheduling_job;
DELETE FROM scheduling_codeentry;
DELETE FROM scheduling_entry;
DELETE FROM scheduling_calendar;
DELETE FROM scheduling_zonedata;
UPDATE scheduling_shard SET epoch = 0, owner_id = NULL WHERE epoch <> 0 OR owner_id IS NOT NULL;
UPDATE scheduling_shardprogress SET seq_epoch = 0, seq = 0 WHERE (seq_epoch, seq) <> (0, 0);
DELETE FROM scheduling_node;
DELETE FROM scheduling_jobclock;
DELETE FROM scheduling_hold;
DELETE FROM scheduling_slot;
DELETE FROM fairness_tenantqueue;
DELETE FROM fairness_limit;
DELETE FROM fairness_budget;
DELETE FROM fairness_standing;
DELETE FROM fairness_servedshare;
DELETE FROM fairness_workerreport;
DELETE FROM fairness_tenant WHERE slug <> 'default';
UPDATE fairness_tenant
SET weight = 1, transactional_weight = NULL, rate_per_s = NULL, burst = 1, max_in_flight = NULL, is_strict = false,
    max_jobs = NULL, daily_fires = NULL, stagger = NULL
WHERE weight <> 1 OR num_nonnulls(transactional_weight, rate_per_s, max_in_flight, max_jobs, daily_fires, stagger) > 0;
"""


@pytest.fixture(scope="session")
def test_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The run's database; made here if no test of the run is marked `django_db`: pytest-django then makes none."""
    with django_db_blocker.unblock():
        if connection.settings_dict["NAME"] == connection.settings_dict["TEST"]["NAME"]:
            yield
            return
        made = setup_databases(0, interactive=False, aliases={"default": False})
    yield
    with django_db_blocker.unblock():
        teardown_databases(made, 0)


@pytest.fixture
def committed_db(test_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """An empty database, but for the shards and the default tenant; partitions of earlier tests are still there."""
    with django_db_blocker.unblock():
        _clean()
        yield
        _clean()


def _clean() -> None:
    with connection.cursor() as cursor:
        cursor.execute(CLEAN)
