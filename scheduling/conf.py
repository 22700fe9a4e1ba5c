"""The settings of a deployment: ``SCHEDULING``, its presets, and what is wrong with it.

``STOP`` is a preset of the parts; the other keys tune it. Nothing is read at import.

=============  ======================  ==========================  =============================  ====================
part           stop 1: cron on a box   stop 2: queue and workers   stop 3: partitioned, available  stop 4: sharded
=============  ======================  ==========================  =============================  ====================
nodes          one                     any number, no owners       any number, each owns shards   as stop 3
store          rows, by shard          rows, with row locks        rows, by shard                 time buckets
coordination   takes every shard       row locks                   leases in Postgres, or etcd    as stop 3
timing         poll on a tick          poll on a tick              timing wheel                   timing wheel
execution      threads of the node     Celery workers              Celery workers                 Celery workers
fairness       off                     limits                      limits, weighted queues        fair queue, quotas
=============  ======================  ==========================  =============================  ====================

Of a neighbouring stop, ``STORE`` may be taken alone: stop 3 with time buckets, stop 4 with rows; and so may
``FAIRNESS``. With ``GROUPS = 1``
one node is active, and the others are hot standbys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from math import inf
from typing import Any

from scheduling.core.address import host_and_port
from scheduling.core.errors import InvalidField
from scheduling.core.masking import DEFAULT_MASK_KEYS, Mask, mask_of


class Stop(IntEnum):
    """How far a deployment has climbed; every stop runs the same code."""

    ONE = 1
    TWO = 2
    THREE = 3
    FOUR = 4


class Coordination(StrEnum):
    """Where nodes that own shards keep their leases."""

    POSTGRES = "postgres"
    ETCD = "etcd"


class Store(StrEnum):
    """Where jobs keep their next occurrence."""

    INDEXED = "indexed"  # in their rows
    BUCKETED = "bucketed"  # in a ring of tables, a minute each, once they fire again and again


class Fairness(StrEnum):
    """How far tenants are kept from one another; each has what those before it have."""

    OFF = "off"
    LIMITS = "limits"  # rates, caps and budgets of tenants, lanes and tasks
    QUEUES = "queues"  # a worker's prefetch by weight, and its fair door
    FAIR = "fair"  # only about as much is released as the workers can take, in fair turns; the rest waits in Postgres


class Cost(StrEnum):
    """By what shares are measured."""

    TIME = "time"  # slot-seconds
    COUNT = "count"  # fires


class CodeJobs(StrEnum):
    """Whose change of a job of origin ``code`` counts, where a person and the code have changed the same part of it."""

    KEEP = "keep"  # the person's: beats restart often, and must not undo what was set by hand in an incident
    OVERWRITE = "overwrite"  # the code's


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingSettings:
    """``settings.SCHEDULING``, checked. Durations are real seconds."""

    STOP: Stop = Stop.THREE
    STORE: Store | None = None  # None: the stop's
    SHARDS: int = 64
    GROUPS: int | None = None  # of shards that have one owner, the same for all nodes; None: each shard its own
    CAPACITY: float = 1.0  # of this node, relative to the others': its share of the shards follows
    NODE: str = "project.wiring.build_node"  # dotted path: (SchedulingSettings, node_id, region) -> a runnable node
    WINDOW_S: float = 1.0  # how far ahead a node claims
    POLL_S: float = 0.1  # how often it looks for what became due otherwise
    TICK_S: float = 0.5  # stops 1 and 2: how often they look at all
    LEASE_S: float = 2.0  # a node's lease
    RENEW_S: float = 0.5
    FIRE_LEASE_S: float = 30.0  # a worker's lease on the fire that it runs
    FIRE_GRACE_S: float = 5.0
    CONFIRM_S: float = 30.0  # stop 2: claimed and not confirmed by then, any node publishes it again
    START_PATIENCE_S: float = 60.0  # published, and no worker has started it by then: it is looked whether it is lost
    THREADS: int = 8  # stop 1: tasks run at once
    BATCH: int = 1000  # fires claimed in one transaction
    BACKLOG: int = 4000  # due, unconfirmed fires a node holds before it stops claiming
    AHEAD: int = 30_000  # claimed fires in the wheel, about 1 KB each: twice what a node can fire in its window
    FAIRNESS: Fairness | None = None  # None: the stop's
    COST: Cost = Cost.TIME
    REDIS_URL: str = ""  # of the limits and shares that nodes have in common; empty: each node has its part of them
    DEDICATED_QUEUES: int = 100  # tenants' queues of their own, at most; the others share
    SHARED_QUEUES: int = 16  # for each lane
    COORDINATOR: Coordination = Coordination.POSTGRES
    ETCD_URLS: tuple[str, ...] = ("http://127.0.0.1:2379",)  # of the cluster's members; a text may join them by commas
    ETCD_PREFIX: str = "fairbeat"  # of all keys: another one for each database whose nodes use the same etcd
    ETCD_USER: str = ""  # name:password
    ETCD_CA: str = ""  # PEM files, for https: who vouches for the members, and who we are
    ETCD_CERT: str = ""
    ETCD_KEY: str = ""
    HEALTH: str = ""  # HOST:PORT where a node says whether it is live and ready (port 0: a free one); empty: nowhere
    CODE_JOBS: CodeJobs = CodeJobs.KEEP
    QUEUE_PREFIX: str = "fairbeat"  # of the names of all queues
    QUEUE_MAX_LENGTH: int = 50_000  # of a tenant's queue in one lane: a fuse, not the control
    CONSUMER_TIMEOUT_S: float = 1800.0  # RabbitMQ's consumer_timeout, as it is set there: for the checks to know
    MASK_KEYS: tuple[str, ...] = DEFAULT_MASK_KEYS  # words of the keys whose values no page and no log shows

    @property
    def store(self) -> Store:
        """As set, or as the stop has it."""
        return self.STORE or (Store.BUCKETED if self.STOP is Stop.FOUR else Store.INDEXED)

    @property
    def fairness(self) -> Fairness:
        """As set, or as the stop has it."""
        return self.FAIRNESS or FAIRNESS_OF[self.STOP]

    @property
    def mask(self) -> Mask:
        """What hides secrets among arguments."""
        return mask_of(self.MASK_KEYS)


FAIRNESS_OF = dict(zip(Stop, Fairness, strict=True))
KEYS = {f.name: f for f in fields(SchedulingSettings)}
_MEMBER = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}/?", re.ASCII)
CHOICES: dict[str, type[Stop | Store | Coordination | CodeJobs | Fairness | Cost]] = {
    "STOP": Stop,
    "STORE": Store,
    "COORDINATOR": Coordination,
    "CODE_JOBS": CodeJobs,
    "FAIRNESS": Fairness,
    "COST": Cost,
}


def scheduling_settings(settings: Any) -> SchedulingSettings:
    """Raises ValueError with every problem, one a line."""
    found = list(problems(settings))
    if found:
        raise ValueError("\n".join(found))
    given = dict(settings.SCHEDULING)
    given["STOP"] = Stop(given.get("STOP", Stop.THREE))
    if given.get("STORE") is not None:
        given["STORE"] = Store(given["STORE"])
    if given.get("FAIRNESS") is not None:
        given["FAIRNESS"] = Fairness(given["FAIRNESS"])
    given["COST"] = Cost(given.get("COST", Cost.TIME))
    given["CODE_JOBS"] = CodeJobs(given.get("CODE_JOBS", CodeJobs.KEEP))
    given["COORDINATOR"] = Coordination(given.get("COORDINATOR", Coordination.POSTGRES))
    if "ETCD_URLS" in given:
        given["ETCD_URLS"] = _listed(given["ETCD_URLS"])
    if "MASK_KEYS" in given:
        given["MASK_KEYS"] = tuple(given["MASK_KEYS"])
    return SchedulingSettings(**given)


def problems(settings: Any) -> Iterator[str]:
    """What is wrong with ``settings.SCHEDULING``, a sentence each."""
    given = getattr(settings, "SCHEDULING", None)
    if not isinstance(given, dict):
        yield f"SCHEDULING {given!r}: is not a dictionary"
        return
    for name, value in given.items():
        if name in KEYS:
            yield from (f"SCHEDULING[{name!r}] {_shown(value)}: {problem}" for problem in _problems_of(name, value))
        else:
            yield f"SCHEDULING[{name!r}]: no such setting; there are {', '.join(sorted(KEYS))}"
    yield from _problems_of_fairness(given)
    for name, needs_owners in (("STORE", Store.BUCKETED), ("COORDINATOR", Coordination.ETCD)):
        if given.get(name) == needs_owners and given.get("STOP", Stop.THREE) in (Stop.ONE, Stop.TWO):
            yield f"SCHEDULING[{name!r}] {given[name]!r}: needs owners of shards, which come with stop 3"
    groups, shards = given.get("GROUPS"), given.get("SHARDS", 64)
    if isinstance(groups, int) and isinstance(shards, int) and groups > shards:
        yield f"SCHEDULING['GROUPS'] {groups!r}: is more than the {shards} shards"
    lease, renew = given.get("LEASE_S", 2.0), given.get("RENEW_S", 0.5)
    if isinstance(lease, int | float) and isinstance(renew, int | float) and renew > lease / 2:
        yield f"SCHEDULING['RENEW_S'] {renew!r}: a lease of {lease:g} s must be renewed at least twice within it"


def _problems_of(name: str, value: Any) -> Iterator[str]:
    if name in CHOICES:
        if value not in list(CHOICES[name]) and not (value is None and name in ("STORE", "FAIRNESS")):
            yield f"is not one of {', '.join(map(str, CHOICES[name]))}"
    elif name == "MASK_KEYS":
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) and word for word in value):
            yield "is not a list of words"
    elif name == "ETCD_URLS":
        yield from _problems_of_urls(value)
    elif name == "HEALTH" and isinstance(value, str):
        yield from _problems_of_address(value)
    elif KEYS[name].type == "str":
        if not isinstance(value, str) or not (value or KEYS[name].default == ""):
            yield "is not text"
    elif name != "GROUPS" or value is not None:
        yield from _problems_of_number(value, is_whole="int" in str(KEYS[name].type))


def _problems_of_fairness(given: dict[str, Any]) -> Iterator[str]:
    """A stop's own, or its neighbour's."""
    stop, fairness = given.get("STOP", Stop.THREE), given.get("FAIRNESS")
    if stop in list(Stop) and fairness in list(Fairness):
        ladder = list(Fairness)
        if abs(ladder.index(Fairness(fairness)) - ladder.index(FAIRNESS_OF[Stop(stop)])) > 1:
            yield (
                f"SCHEDULING['FAIRNESS'] {str(fairness)!r}: is neither what stop {stop} has "
                f"({FAIRNESS_OF[Stop(stop)]}), nor what a neighbouring stop has"
            )


def _problems_of_address(value: str) -> Iterator[str]:
    try:
        if value:
            host_and_port(value)
    except InvalidField as refused:
        yield refused.problem


def _listed(urls: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(url.strip() for url in (urls.split(",") if isinstance(urls, str) else urls))


def _problems_of_urls(value: Any) -> Iterator[str]:
    if not isinstance(value, str | list | tuple) or not all(isinstance(url, str) for url in value) or not value:
        yield "is neither text nor a list of texts"
    elif not all(map(_MEMBER.fullmatch, _listed(value))):
        yield "holds something else than http://HOST:PORT or https://HOST:PORT (name and password go to ETCD_USER)"


def _shown(value: Any) -> str:
    """Without passwords that somebody put into a URL."""
    return re.sub("//[^/]*@", "//…@", repr(value))


def _problems_of_number(value: Any, *, is_whole: bool) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float) or not 0 < value < inf:
        yield f"is not a {'whole number' if is_whole else 'number'} above 0"
