"""Whether the fleet can fire, as the database knows it: for the web's health page."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from scheduling.conf import Stop, scheduling_settings
from scheduling.services.session import in_transaction
from scheduling.store.cluster import read_living


@dataclass(frozen=True, slots=True)
class Readiness:
    """``reason`` is empty where it is ready. At stops 1 and 2 that takes a living node; no shard needs an owner."""

    nodes: int  # that live
    ownerless: list[int]  # shards
    reason: str = ""


def readiness(*, using: str = DEFAULT_DB_ALIAS) -> Readiness:
    with in_transaction(using) as connection:
        nodes, ownerless = read_living(connection)
    if nodes == 0:
        return Readiness(nodes, ownerless, "no node is alive")
    if scheduling_settings(settings).STOP in (Stop.ONE, Stop.TWO):
        ownerless = []
    return Readiness(nodes, ownerless, f"{len(ownerless)} shards have no living owner" if ownerless else "")
