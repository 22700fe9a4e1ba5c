"""System checks: what Celery and the broker would do to runs is said before it happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from project.celery import app as project_app
from scheduling import checks
from scheduling.models import Job
from scheduling.worker.task import JobTask

RABBITMQ, REDIS = "amqp://guest@localhost//", "redis://localhost/0"


@pytest.fixture
def app() -> Iterator[Celery]:
    """A project's app, on RabbitMQ."""
    made = Celery("shop", broker=RABBITMQ)
    made.set_current()
    yield made
    made.close()
    project_app.set_current()


def ids(found: list[Any]) -> list[str]:
    return [message.id.removeprefix("scheduling.") for message in found]


def test_workers_that_take_no_json_are_an_error(app: Celery) -> None:
    app.conf.accept_content = ["pickle", "yaml"]
    assert ids(checks.check_accepted_content()) == ["E002"]
    app.conf.accept_content = ["application/json"]
    assert checks.check_accepted_content() == []


def test_a_limit_beyond_rabbitmqs_patience_says_what_to_set(app: Celery, settings: Any) -> None:
    [warning] = checks.check_default_limit()
    assert "3600 s" in warning.msg
    assert "1800 s (consumer_timeout)" in warning.msg
    assert str(warning.hint).startswith(
        "Set consumer_timeout = 4200000 in rabbitmq.conf, and SCHEDULING['CONSUMER_TIMEOUT_S'] = 4200;"
    )
    settings.SCHEDULING = settings.SCHEDULING | {"CONSUMER_TIMEOUT_S": 4200.0}
    assert checks.check_default_limit() == []


def test_on_redis_it_is_the_visibility_timeout_that_counts(app: Celery) -> None:
    app.conf.update(broker_url=REDIS)
    assert checks.check_default_limit() == []
    app.conf.broker_transport_options = {"visibility_timeout": 600}
    [warning] = checks.check_default_limit()
    assert "600 s (visibility_timeout)" in warning.msg
    assert "['visibility_timeout'] = 4200" in str(warning.hint)


@pytest.mark.django_db
def test_jobs_that_ask_for_longer_are_looked_for_where_a_database_is(app: Celery, settings: Any) -> None:
    settings.SCHEDULING = settings.SCHEDULING | {"CONSUMER_TIMEOUT_S": 3600.0}
    assert checks.check_limits_of_jobs(databases=["default"]) == []
    Job.objects.cron("t", "@daily", hard_timeout_s=7200.0)
    assert ids(checks.check_limits_of_jobs(databases=["default"])) == ["W002"]
    assert checks.check_limits_of_jobs(databases=None) == []


def test_runs_that_celery_would_end_with_its_connection_are_a_warning(app: Celery) -> None:
    assert checks.check_connection_loss() == []
    app.conf.worker_cancel_long_running_tasks_on_connection_loss = True
    assert ids(checks.check_connection_loss()) == ["W003"]


def test_a_limit_of_a_task_that_no_job_heeds_is_a_warning(app: Celery) -> None:
    assert checks.check_limits_of_tasks() == []

    @app.task(base=JobTask, name="shop.slow", time_limit=60)
    def slow() -> None: ...

    [warning] = checks.check_limits_of_tasks()
    assert "shop.slow" in warning.msg


def test_without_workers_or_an_app_nothing_is_said(settings: Any, app: Celery) -> None:
    app.conf.accept_content = ["pickle"]
    settings.SCHEDULING = settings.SCHEDULING | {"STOP": 1}
    assert checks.check_accepted_content() + checks.check_default_limit() == []
    settings.SCHEDULING = settings.SCHEDULING | {"STOP": "?"}
    assert checks.check_accepted_content() == []
