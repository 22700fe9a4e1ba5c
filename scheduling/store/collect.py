"""Brings home what the broker has given up: what came of each message, in one transaction for a batch of them.

The caller acknowledges the messages once ``collect`` has returned. A message that comes again, because that got lost,
changes nothing more: a fire is written only while it waits for this very message, and a message without a fire only if
it was not kept before. Two alike of one queue and one second, both redelivered, are kept as one.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduling.core.clock import EPOCH
from scheduling.core.dead_message import DeadMessage, NamedFire
from scheduling.core.fingerprint import essence, fingerprint, first_line
from scheduling.core.fire import State
from scheduling.core.identity import run_id
from scheduling.models.dead_letter import DeathReason
from scheduling.models.job_run import NOBODY
from scheduling.store.connection import Connect, Connection, Link
from scheduling.store.fates import Fate, Standing, Verdict, judge
from scheduling.store.statements import statements

log = logging.getLogger(__name__)
ONE_DAY = timedelta(days=1)

OwnerOf = Callable[[str, str | None], str | None]
"""Whose a message is, by the queue in which it died and the tenant that it names; None: nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A fire whose message was given up, for those who want to hear of it. It is dead, or another attempt follows."""

    fire: NamedFire
    name: str  # of its job; may be empty
    task: str
    origin: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of a message. ``ended`` is None where no fire was written."""

    message: DeadMessage
    verdict: Verdict
    ended: Ended | None = None


class CollectStore:
    """``owner_of`` knows the queues. One connection, one thread."""

    def __init__(self, connect: Connect, *, owner_of: OwnerOf) -> None:
        self._link = Link(connect)
        self._owner_of = owner_of
        self._sql = statements("collect", **statements("dead_letters"), wake_next=statements("ledger")["wake_next"])

    def ping(self) -> None:
        """Raises StoreUnavailable."""
        with self._link() as connection:
            connection.execute("SELECT 1")

    def collect(self, messages: Sequence[DeadMessage]) -> list[Collected]:
        """What became of each, which is committed.

        Raises StoreUnavailable: nobody knows whether it is, and the messages are to be collected again.
        """
        try:
            return self._collect(messages)
        except psycopg.Error as problem:  # of one of them: it must not keep the others here for ever
            if len(messages) > 1:
                return [one for message in messages for one in self.collect([message])]
            return [self._set_aside(messages[0], problem)]

    def close(self) -> None:
        self._link.close()

    def _collect(self, messages: Sequence[DeadMessage]) -> list[Collected]:
        with self._link() as connection, connection.transaction():
            standings = self._standings(connection, [message.fire for message in messages if message.fire])
            guarded = self._guarded(connection, messages)
            verdicts = [
                judge(
                    message,
                    standings.get(message.fire.fire_id) if message.fire else None,
                    owner=self._owner(message),
                    is_guarded=guarded.get(message.task),
                    rand=random.random,
                )
                for message in messages
            ]
            return self._written(connection, list(zip(messages, verdicts, strict=True)))

    def _set_aside(self, message: DeadMessage, problem: psycopg.Error) -> Collected:
        log.error("a message of %s could not be collected, and is kept as it is: %s", message.queue, problem)
        verdict = Verdict(Fate.KEPT, DeathReason.REJECTED, f"it could not be collected: {first_line(str(problem))}")
        with self._link() as connection, connection.transaction():
            self._keep(connection, message, verdict)
        return Collected(message, verdict)

    def _owner(self, message: DeadMessage) -> str | None:
        return self._owner_of(message.queue, message.fire.tenant if message.fire else None)

    def _standings(self, connection: Connection, fires: Sequence[NamedFire]) -> dict[UUID, Standing]:
        if not fires:
            return {}
        values = {
            "fire_ids": [fire.fire_id for fire in fires],
            "scheduled_fors": [fire.scheduled_for for fire in fires],
            "history_days": [fire.history_days for fire in fires],
            "fences": [fire.fence for fire in fires],
            "earliest": min(fire.scheduled_for for fire in fires),
            "latest": max(fire.scheduled_for for fire in fires),
        }
        connection.execute(self._sql["lock"], values)
        rows = connection.execute(self._sql["standings"], values)
        return {row[0]: _standing(*row[1:]) for row in rows}

    def _guarded(self, connection: Connection, messages: Sequence[DeadMessage]) -> dict[str, bool]:
        tasks = list({message.task for message in messages})
        return dict(connection.execute(self._sql["known_tasks"], {"tasks": tasks}).fetchall())

    def _written(self, connection: Connection, judged: Sequence[tuple[DeadMessage, Verdict]]) -> list[Collected]:
        """First the fires, whose locks we have; then what is no fire's, which waits for the others who keep such."""
        collected = []
        for message, verdict in sorted(judged, key=lambda pair: pair[1].fate is Fate.KEPT):
            ended = None
            match verdict.fate:
                case Fate.GIVEN_BACK | Fate.DEAD:
                    ended = self._end(connection, message, verdict)
                case Fate.KEPT:
                    self._keep(connection, message, verdict)
            collected.append(Collected(message, verdict, ended))
        return collected

    def _end(self, connection: Connection, message: DeadMessage, verdict: Verdict) -> Ended | None:
        """None: a copy of the message in the same batch was first."""
        assert message.fire is not None
        name = "let_die" if verdict.fate is Fate.DEAD else "give_back"
        row = connection.execute(self._sql[name], _values(message.fire, verdict)).fetchone()
        if row is None:
            return None
        attempt, origin, job, task, _ = row
        if verdict.fate is Fate.DEAD:
            body = message.body if message.problem else None
            values = {"fire_id": message.fire.fire_id, "queue": message.queue, "message": body}
            connection.execute(self._sql["note_origin"], values)
        return Ended(fire=message.fire, name=job, task=task, origin=origin, attempt=attempt)

    def _keep(self, connection: Connection, message: DeadMessage, verdict: Verdict) -> None:
        connection.execute(self._sql["one_at_a_time"])
        values = {
            "owner": self._owner(message),
            "task": message.task,
            "reason": verdict.reason,
            "error": verdict.error,
            "fingerprint": fingerprint(message.task, verdict.reason, essence(verdict.error)),
            "queue": message.queue,
            "message": message.body,
            "died_at": datetime.now(UTC) if message.died_at == EPOCH else message.died_at,
            "is_redelivered": message.is_redelivered,
        }
        connection.execute(self._sql["keep"], values)


def _standing(
    state: str,
    fence: int,
    job_id: UUID,
    tenant: str,
    attempt: int,
    max_attempts: int,
    counted: int,
    deleted: bool,
    retry_base: timedelta,
    retry_cap: timedelta,
) -> Standing:
    return Standing(
        state=State(state),
        fence=fence,
        job_id=job_id,
        tenant=tenant,
        attempt=attempt,
        max_attempts=max_attempts,
        counted=counted,
        deleted=deleted,
        retry_base=retry_base,
        retry_cap=retry_cap,
    )


def _values(fire: NamedFire, verdict: Verdict) -> dict[str, Any]:
    return {
        "fire_id": fire.fire_id,
        "job_id": fire.job_id,
        "scheduled_for": fire.scheduled_for,
        "day_before": fire.scheduled_for - ONE_DAY,
        "history_days": fire.history_days,
        "fence": fire.fence,
        "run_id": run_id(fire.fire_id, fire.fence),
        "reason": verdict.reason,
        "error": verdict.error,
        "essence": essence(verdict.error),
        "nobody": NOBODY,
        "is_attempt": verdict.is_attempt,
        "wait": verdict.wait,
    }
