"""Django settings, read from the environment once, at start.

| variable | meaning | default |
|---|---|---|
| `DATABASE_URL` | Postgres; by Unix socket: `postgresql://user@%2Fdir/name` | database `fairbeat` on 127.0.0.1 |
| `REDIS_URL` | Redis or Valkey, for limits and shares that nodes have in common | 127.0.0.1:6379, database 0 |
| `AMQP_URL` | RabbitMQ | none |
| `CELERY_BROKER_URL` | any broker that kombu speaks to | `AMQP_URL` where set, else `REDIS_URL` |
| `CELERY_RESULT_BACKEND` | `django-db` makes django-celery-results record results | none: the ledger records what ran |
| `CELERY_DEFAULT_QUEUE` | where plain `apply_async` calls go | `fairbeat.default` |
| `FAIRBEAT_STOP` | 1 to 4: the preset of parts, see `SCHEDULING["STOP"]` | 3 |
| `FAIRBEAT_COORDINATOR` | `postgres` or `etcd`: where nodes keep their leases | `postgres` |
| `ETCD_URL` | members of an etcd cluster, `http(s)://host:port`, comma-separated | 127.0.0.1:2379 |
| `FAIRBEAT_ETCD_PREFIX` | first part of all keys in etcd | `fairbeat` |
| `ETCD_USER`, `ETCD_CA`, `ETCD_CERT`, `ETCD_KEY` | `name:password`; PEM files | none |
| `FAIRBEAT_FAIRNESS` | `off`, `limits`, `queues` or `fair`, see `SCHEDULING["FAIRNESS"]` | the stop's |
| `FAIRBEAT_QUEUE_PREFIX` | first part of the names of all queues | `fairbeat` |
| `SECRET_KEY` | signs sessions | random at each start: logins then end with the process |
| `DEBUG` | `1` shows tracebacks in the browser | off |
| `ALLOWED_HOSTS` | comma-separated | loopback |

Nothing here asks whether a service answers: that is `project.environment`. Only `project` reads these settings; the
libraries `scheduling` and `fairness` are handed what they need.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import dj_database_url

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = os.environ.get("SECRET_KEY") or secrets.token_urlsafe(50)
DEBUG = os.environ.get("DEBUG") == "1"
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")

DATABASE_URL = os.environ.get("DATABASE_URL") or "postgresql://127.0.0.1:5432/fairbeat"
REDIS_URL = os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0"
AMQP_URL = os.environ.get("AMQP_URL") or None

stop = os.environ.get("FAIRBEAT_STOP") or "3"
SCHEDULING = {
    "STOP": int(stop) if stop.isdigit() else stop,  # a system check refuses what is no stop
    "SHARDS": 64,
    "COORDINATOR": os.environ.get("FAIRBEAT_COORDINATOR") or "postgres",
    "ETCD_URLS": os.environ.get("ETCD_URL") or "http://127.0.0.1:2379",
    "ETCD_PREFIX": os.environ.get("FAIRBEAT_ETCD_PREFIX") or "fairbeat",
    **{name: os.environ.get(name, "") for name in ("ETCD_USER", "ETCD_CA", "ETCD_CERT", "ETCD_KEY")},
    "QUEUE_PREFIX": os.environ.get("FAIRBEAT_QUEUE_PREFIX") or "fairbeat",
    "FAIRNESS": os.environ.get("FAIRBEAT_FAIRNESS") or None,
    "REDIS_URL": REDIS_URL,
}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_results",
    "fairness",
    "scheduling",
    "project.demo",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
STATIC_URL = "static/"

DATABASES = {"default": dj_database_url.parse(DATABASE_URL, conn_max_age=60, conn_health_checks=True)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"

CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL") or AMQP_URL or REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_RESULT_BACKEND = os.environ.get("CELERY_RESULT_BACKEND") or None
CELERY_TIMEZONE = "UTC"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_RESULT_EXTENDED = True  # django-celery-results then keeps the name of the job, too
CELERY_TASK_DEFAULT_QUEUE = os.environ.get("CELERY_DEFAULT_QUEUE") or "fairbeat.default"
# Celery closes the database connection before and after each task. The ledger speaks to Postgres twice a run, so that
# connecting anew would cost more than all the rest: keep it for this many tasks. (It is made again where it broke.)
CELERY_DB_REUSE_MAX = 1000
# A worker sets its prefetch for each consumer, and not for the channel, where it finds a quorum queue among those that
# are configured. It must: the tenants' queues are quorum queues, which are added while it runs, and RabbitMQ 3 closes
# a channel with a global prefetch that consumes from one (540 NOT_IMPLEMENTED).
CELERY_WORKER_DETECT_QUORUM_QUEUES = True
CELERY_WORKER_CONSUMER = "project.worker_consumer:Consumer"
# A channel that RabbitMQ closes (a message was not acknowledged within its `consumer_timeout`) is to a worker as a lost
# connection: it connects anew. Else the worker would end by it, with all that it runs.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
if CELERY_BROKER_URL.startswith(("amqp", "pyamqp")):
    CELERY_TASK_DEFAULT_QUEUE_TYPE = "quorum"
    CELERY_TASK_CREATE_MISSING_QUEUE_TYPE = "quorum"
elif CELERY_BROKER_URL.startswith(("redis", "valkey", "unix")):
    # One list for each queue, and not one for each of four priorities, which are not used here: with each message a
    # worker names all lists that it waits for, and 134 queues cost it half as much so (1.1 ms, not 2.3).
    CELERY_BROKER_TRANSPORT_OPTIONS = {"priority_steps": [0]}
