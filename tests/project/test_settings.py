"""The settings as the environment gives them, and what Celery makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.processes import ROOT

NAMES = (
    "DATABASE_URL",
    "REDIS_URL",
    "AMQP_URL",
    "CELERY_BROKER_URL",
    "CELERY_RESULT_BACKEND",
    "CELERY_DEFAULT_QUEUE",
    "ETCD_URL",
)


def settings_with(**environ: str) -> dict[str, object]:
    """The settings of a process that starts with nothing but `environ` configured."""
    line = (
        "import json; from django.conf import settings; from project.celery import app;"
        "print(json.dumps({'database': settings.DATABASES['default'], 'broker': app.conf.broker_url,"
        "'backend': app.conf.result_backend, 'queue_type': app.conf.task_default_queue_type,"
        "'scheduling': settings.SCHEDULING, 'key': settings.SECRET_KEY, 'hosts': settings.ALLOWED_HOSTS}))"
    )
    clean = {name: value for name, value in os.environ.items() if name not in NAMES}
    command = [sys.executable, "-c", line]
    done = subprocess.run(command, env=clean | environ, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("environ", "broker", "queue_type"),
    [
        ({"REDIS_URL": "redis://r/1"}, "redis://r/1", "classic"),
        ({"REDIS_URL": "redis://r/1", "AMQP_URL": "amqp://mq//"}, "amqp://mq//", "quorum"),
        ({"AMQP_URL": "", "CELERY_BROKER_URL": "sqs://"}, "sqs://", "classic"),
    ],
)
def test_the_broker_is_rabbitmq_where_it_is_named_and_its_queues_are_quorum_queues(environ, broker, queue_type):
    found = settings_with(**environ)
    assert (found["broker"], found["queue_type"]) == (broker, queue_type)


@pytest.mark.parametrize("url", ["postgresql://me@%2Frun%2Fpg/app", "postgresql://me:@/app?host=/run/pg"])
def test_postgres_is_reached_by_a_unix_socket_too(url: str):
    database = settings_with(DATABASE_URL=url)["database"]
    assert isinstance(database, dict)
    assert (database["HOST"] or database["OPTIONS"]["host"], database["NAME"]) == ("/run/pg", "app")


def test_results_are_not_kept_unless_a_backend_is_named():
    assert settings_with()["backend"] is None
    assert settings_with(CELERY_RESULT_BACKEND="django-db")["backend"] == "django-db"


def test_etcd_is_used_where_it_is_asked_for():
    scheduling = settings_with()["scheduling"]
    assert isinstance(scheduling, dict)
    assert (scheduling["COORDINATOR"], scheduling["ETCD_URLS"]) == ("postgres", "http://127.0.0.1:2379")
    scheduling = settings_with(
        FAIRBEAT_COORDINATOR="etcd", ETCD_URL="https://a:1,https://b:2", ETCD_USER="me:s3cret", ETCD_CA="/ca.pem"
    )["scheduling"]
    assert isinstance(scheduling, dict)
    assert (scheduling["COORDINATOR"], scheduling["ETCD_URLS"]) == ("etcd", "https://a:1,https://b:2")
    assert (scheduling["ETCD_USER"], scheduling["ETCD_CA"], scheduling["ETCD_CERT"]) == ("me:s3cret", "/ca.pem", "")


def test_a_secret_key_is_never_the_same_by_default():
    assert settings_with()["key"] != settings_with()["key"]
    assert settings_with(SECRET_KEY="given")["key"] == "given"


def test_the_web_admin_answers_on_loopback_alone_by_default():
    assert settings_with()["hosts"] == ["127.0.0.1", "localhost", "[::1]"]
