"""Which Postgres, Redis and broker a run uses, with embedded ones started where none is configured.

    with services() as found:
        os.environ.update(found.environ())

| service | configured by | otherwise |
|---|---|---|
| Postgres | `DATABASE_URL` | embedded, its data kept in `.run/postgres` |
| Redis | `REDIS_URL` | embedded, keeps nothing |
| broker | `AMQP_URL` or `CELERY_BROKER_URL` | RabbitMQ on localhost where it answers, else the run's Redis |
| etcd | `ETCD_URL` | none; with `FAIRBEAT_COORDINATOR=etcd` and for tests one is sought, and started |

A service that is configured must answer: there is no fallback from it. `EMBEDDED=1` takes the embedded ones even where
a RabbitMQ answers on localhost, and refuses to go with a configured URL. What was started is stopped at the end, and
what an earlier, killed run left running is stopped before.

`python -m project.environment run -- COMMAND` does the same around a command.
"""

from __future__ import annotations

from project.environment.services import Needs, Services, services

__all__ = ("Needs", "Services", "services")
