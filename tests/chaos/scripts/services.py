"""What happens to Postgres and etcd."""

from __future__ import annotations

import signal

import psycopg

from tests.chaos.monitor import NAME
from tests.chaos.registry import scenario
from tests.chaos.stage import Act


@scenario("4", "restarted")
def _postgres_restarts(act: Act) -> None:
    act.services.postgres.stop(signal.SIGQUIT)
    act.lasts(act.rng.uniform(0.0, 2.0))
    act.services.postgres.start()
    act.heals()
    act.recovers()


@scenario("4", "sessions ended")
def _sessions_ended(act: Act) -> None:
    with psycopg.connect(act.services.postgres.url, autocommit=True, application_name=NAME) as connection:
        for _ in range(20):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM ("
                " SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> %s"
                " ORDER BY random() LIMIT 1) one",
                [NAME],
            )
            act.lasts(0.2)
    act.heals()
    act.recovers()


@scenario("11", "leader killed")
def _etcd_leader_killed(act: Act) -> None:
    leader = act.services.etcd.leader()
    leader.kill()
    act.lasts(3.0)
    act.services.etcd.start_again(leader)
    act.heals()
    act.recovers()


@scenario("11", "majority lost")
def _etcd_majority_lost(act: Act) -> None:
    lost = act.rng.sample(act.services.etcd.members, 2)
    for member in lost:
        member.kill()
    act.lasts(act.rng.uniform(2.0, 4.0))
    act.services.etcd.start_again(*lost)
    act.heals()
    act.recovers()
