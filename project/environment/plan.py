"""The decision, apart from carrying it out: what is used as it is, and what is to be embedded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from project.environment import probe
from project.environment.probe import Probe
from project.environment.urls import is_amqp, masked
from scheduling.core.errors import InvalidField, ServiceUnreachable

MISSING = "RABBITMQ_MISSING"  # set by an outer run that has looked already: why there is no RabbitMQ
ETCD_MISSING = "ETCD_MISSING"
EMBEDDED = "EMBEDDED=1 asks for the embedded broker"
NO_EMBEDDED_ETCD = "EMBEDDED=1 asks for embedded services, and there is no embedded etcd"
LOCAL_RABBITMQ = "amqp://guest:guest@localhost:5672//"


@dataclass(frozen=True, slots=True)
class Probes:
    """How to ask each service; each raises where it does not answer."""

    postgres: Probe = probe.postgres
    redis: Probe = probe.redis_
    broker: Probe = probe.broker
    etcd: Probe = probe.etcd


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The URLs of what answers already. None: Postgres and Redis are embedded, and the broker is the run's Redis.

    Without an `etcd_url` there is no etcd, or one is started for those who need it. `no_rabbitmq` and `no_etcd`: why
    none is to be looked for; empty where one is, or is configured.
    """

    database_url: str | None
    redis_url: str | None
    broker_url: str | None
    etcd_url: str | None
    no_rabbitmq: str = ""
    no_etcd: str = ""


def plan(environ: Mapping[str, str], *, probes: Probes) -> Plan:
    """Decide from the environment; an empty variable counts as one that is not set. `EMBEDDED=1` forces the embedded
    services, whatever else is set or answers.

    Raises `ServiceUnreachable` for a configured service that does not answer, `InvalidField` for a URL or a combination
    of variables that makes no sense.
    """
    if _forces_embedded(environ):
        return Plan(
            database_url=None,
            redis_url=None,
            broker_url=None,
            etcd_url=None,
            no_rabbitmq=EMBEDDED,
            no_etcd=NO_EMBEDDED_ETCD,
        )
    database_url = environ.get("DATABASE_URL") or None
    if database_url:
        probes.postgres("DATABASE_URL", database_url)
    redis_url = environ.get("REDIS_URL") or None
    if redis_url:
        probes.redis("REDIS_URL", redis_url)
    no_rabbitmq = environ.get(MISSING, "")
    broker_url = _configured_broker(environ, probes)
    if broker_url:
        no_rabbitmq = ""
    elif not no_rabbitmq and _answers(LOCAL_RABBITMQ, probes):
        broker_url = LOCAL_RABBITMQ
    etcd_url = environ.get("ETCD_URL") or None
    if etcd_url:
        probes.etcd("ETCD_URL", etcd_url)
    return Plan(
        database_url=database_url,
        redis_url=redis_url,
        broker_url=broker_url,
        etcd_url=etcd_url,
        no_rabbitmq=no_rabbitmq,
        no_etcd="" if etcd_url else environ.get(ETCD_MISSING, ""),
    )


def _forces_embedded(environ: Mapping[str, str]) -> bool:
    value = environ.get("EMBEDDED", "")
    if value not in ("", "0", "1"):
        raise InvalidField("EMBEDDED", value, "it is 1 for the embedded services, else 0 or not set")
    return value == "1"


def _configured_broker(environ: Mapping[str, str], probes: Probes) -> str | None:
    amqp_url, celery_url = environ.get("AMQP_URL"), environ.get("CELERY_BROKER_URL")
    if amqp_url and celery_url and amqp_url != celery_url:
        problem = f"AMQP_URL names another broker ({masked(amqp_url)}); unset one of them"
        raise InvalidField("CELERY_BROKER_URL", masked(celery_url), problem)
    if amqp_url and not is_amqp(amqp_url):
        raise InvalidField("AMQP_URL", masked(amqp_url), "it names a RabbitMQ; other brokers go to CELERY_BROKER_URL")
    url = amqp_url or celery_url
    if url:
        probes.broker("AMQP_URL" if amqp_url else "CELERY_BROKER_URL", url)
    return url or None


def _answers(url: str, probes: Probes) -> bool:
    try:
        probes.broker("RabbitMQ on localhost", url)
    except ServiceUnreachable:
        return False
    return True
