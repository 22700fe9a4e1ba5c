"""Which queue a message goes to, by real rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Thread
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from fairness.models import Tenant, TenantQueue
from fairness.queue_map import QueueMap
from fairness.queue_rows import QueueRow, QueueRows
from fairness.queues import QueuePlan, choices
from tests.processes import PATIENCE_S, eventually

PLAN = QueuePlan(prefix="mine")
WAITS = """
    SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
    WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
"""
Make = Callable[..., QueueMap]


class Database:
    """The test's, as nodes reach it; it can be gone for a while."""

    def __init__(self) -> None:
        self.is_there = True

    def __call__(self) -> psycopg.Connection[Any]:
        if not self.is_there:
            raise psycopg.OperationalError("it is gone")
        params = connection.get_connection_params()
        kept = {name: params[name] for name in ("dbname", "user", "password", "host", "port") if name in params}
        return psycopg.connect(**kept, autocommit=True)


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def make(committed_db: None, database: Database) -> Iterator[Make]:
    made: list[QueueMap] = []

    def build(*, dedicated: int = 10, shared: int = 4, **options: Any) -> QueueMap:
        made.append(
            QueueMap(
                PLAN, database, dedicated=dedicated, shared=shared, **{"refresh_s": 0.02, "patience_s": 5, **options}
            )
        )
        return made[-1]

    yield build
    for one in made:
        one.close()


@pytest.fixture
def rows(committed_db: None, database: Database) -> Iterator[QueueRows]:
    made = QueueRows(database)
    yield made
    made.close()


def tenants(count: int) -> list[Tenant]:
    return [Tenant.objects.create(slug=f"t{number}") for number in range(count)]


def where(queues: QueueMap, tenant: Tenant, lane: str = "bulk") -> str:
    return queues.queue_for(tenant.slug, tenant.pk, lane).name


def in_use() -> dict[str, int | None]:
    return dict(TenantQueue.objects.filter(retired_at=None).values_list("name", "tenant_id"))


def retire(*names: str) -> None:
    assert TenantQueue.objects.filter(name__in=names).update(retired_at=timezone.now()) == len(names)


def test_a_tenants_queue_has_its_row_before_its_first_message(make):
    (one,) = tenants(1)
    name = where(make(), one)
    assert name == "mine.t0.bulk.v1"
    assert in_use() == {name: one.pk}


def test_lanes_beyond_the_number_share_by_their_names_and_hold_to_it(make):
    queues, some = make(dedicated=3), tenants(8)
    names = {one.slug: {where(queues, one) for _ in range(6)} for one in some}
    assert [slug for slug, found in names.items() if found == {f"mine.{slug}.bulk.v1"}] == ["t0", "t1", "t2"]
    for slug in list(names)[3:]:
        assert names[slug] == {PLAN.shared_name(number, 4, "bulk") for number in choices(slug, 4)}
    assert in_use().keys() == set().union(*names.values())
    other = make(dedicated=3)
    assert where(other, some[0]) == "mine.t0.bulk.v1"
    assert where(other, some[7]) in names["t7"]


def test_nodes_that_assign_at_the_same_time_keep_to_the_number(make):
    some, maps = tenants(12), [make(dedicated=5) for _ in range(4)]
    threads = [
        Thread(target=lambda queues=queues, turn=turn: [where(queues, one) for one in some[turn:] + some[:turn]])
        for turn, queues in enumerate(maps)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own = [name for name, tenant in in_use().items() if tenant is not None]
    assert len(own) == 5
    for one in some:
        assert len({where(queues, one) in own for queues in maps}) == 1


def test_who_assigns_waits_for_another_who_does_and_counts_what_that_took(rows, database):
    one, two = tenants(2)
    taken: list[set[str]] = []
    with rows._open() as first, first.transaction():
        rows.assign([QueueRow("mine.t0.bulk.v1", one.pk, "bulk")], dedicated=1)
        second = QueueRows(database)
        asks = [QueueRow("mine.t1.bulk.v1", two.pk, "bulk")]
        thread = Thread(target=lambda: taken.append(second.assign(asks, dedicated=1)[0]))
        thread.start()
        eventually(lambda: taken or first.execute(WAITS).fetchone() is not None)
    thread.join(PATIENCE_S)
    second.close()
    assert taken == [set()]


def test_of_its_two_shared_queues_a_tenant_takes_the_one_that_got_less_lately(make):
    queues, some = make(dedicated=1, shared=2, refresh_s=60), tenants(3)
    where(queues, some[0])
    for _ in range(9):
        where(queues, some[1])
    counts = Counter(where(queues, some[2]) for _ in range(21))
    assert sorted(counts.values()) == [10, 11]


def test_a_retired_row_comes_back_with_the_next_message(make):
    queues, (one,) = make(), tenants(1)
    name = where(queues, one)
    retire(name)
    eventually(lambda: where(queues, one) == name and name in in_use())


def test_it_comes_back_even_when_there_is_no_room_for_others(make):
    queues, some = make(dedicated=1), tenants(2)
    name = where(queues, some[0])
    assert where(queues, some[1]) != "mine.t1.bulk.v1"
    retire(name)
    other = make(dedicated=1)
    assert where(other, some[1]) != "mine.t1.bulk.v1"
    assert where(other, some[0]) == name
    assert name in in_use()


def test_a_queue_that_is_published_to_while_its_row_is_retired_is_in_use_again(make):
    queues, (one,) = make(refresh_s=60), tenants(1)
    name = where(queues, one)
    queues.missing(name)
    retire(name)
    assert where(queues, one) == name
    queues.missing(name)
    eventually(lambda: name in in_use())


def test_without_the_database_known_queues_stay_and_new_tenants_share_and_rows_follow(make, database):
    queues, some = make(dedicated=1), tenants(3)
    kept = where(queues, some[0])
    shared = where(queues, some[1])
    database.is_there = False
    queues._rows.close()  # as a server does that ends
    eventually(lambda: queues._is_blind)

    assert where(queues, some[0]) == kept
    new = Tenant(slug=some[1].slug, pk=some[1].pk + 100)  # whose choices are those that have rows
    assert where(queues, new) in {shared, *(spec.name for spec in PLAN.shared("t1", "bulk", count=4))}
    nowhere = where(queues, some[0], "transactional")
    assert nowhere == "mine.t0.transactional.v1"
    assert nowhere not in in_use()

    database.is_there = True
    eventually(lambda: nowhere in in_use())


def test_a_database_that_hangs_costs_the_publisher_one_wait(make):
    queues, (one, two) = make(patience_s=0.2), tenants(2)
    with psycopg.connect(**_plain(), autocommit=False) as locker:
        locker.execute("LOCK TABLE fairness_tenantqueue IN ACCESS EXCLUSIVE MODE")
        assert where(queues, one) == "mine.t0.bulk.v1"
        queues._patience_s = 60.0  # it would be waited for
        assert where(queues, two) == "mine.t1.bulk.v1"
        locker.rollback()
    eventually(lambda: in_use().keys() == {"mine.t0.bulk.v1", "mine.t1.bulk.v1"})


def _plain() -> dict[str, Any]:
    params = connection.get_connection_params()
    return {name: params[name] for name in ("dbname", "user", "password", "host", "port") if name in params}


def test_when_there_is_room_the_busiest_of_those_who_share_gets_its_own(make):
    queues, some = make(dedicated=1), tenants(3)
    own = where(queues, some[0])
    for one, messages in ((some[1], 3), (some[2], 30)):
        for _ in range(messages):
            where(queues, one)
    TenantQueue.objects.filter(name=own).delete()
    queues._used_at.clear()  # nothing was sent to it for longer than it is brought back
    queues._places.pop((some[0].pk, "bulk"), None)
    eventually(lambda: where(queues, some[2]) == "mine.t2.bulk.v1")  # a moment after its row
    assert "mine.t2.bulk.v1" in in_use()


def test_a_row_of_an_older_version_is_not_one_more(make, rows):
    (one,) = tenants(1)
    rows.use([QueueRow("mine.t0.bulk.v1-m7", one.pk, "bulk")])
    queues = make(dedicated=1)
    assert where(queues, one) == "mine.t0.bulk.v1"
    assert queues.queues_of("t0", one.pk, "bulk") == ["mine.t0.bulk.v1-m7", "mine.t0.bulk.v1"]


def test_a_message_may_wait_in_every_queue_in_use_that_its_tenant_may_use(make):
    queues, some = make(dedicated=1, shared=1), tenants(2)
    for one in some:
        where(queues, one)
        where(queues, one, "transactional")
    assert sorted(queues.queues_of("t0", some[0].pk, "bulk")) == ["mine-shared.0-of-1.bulk.v1", "mine.t0.bulk.v1"]
    assert queues.queues_of("t1", some[1].pk, "bulk") == ["mine-shared.0-of-1.bulk.v1"]
    assert queues.queues_of("t1", some[1].pk, "other") == []


def test_the_last_use_is_noted_at_the_end(make):
    queues, (one,) = make(), tenants(1)
    where(queues, one)
    long_ago = timezone.now() - timedelta(days=2)
    TenantQueue.objects.update(used_at=long_ago)
    where(queues, one)
    queues.close(timeout_s=5)
    assert TenantQueue.objects.get().used_at > long_ago
    assert where(queues, one) == "mine.t0.bulk.v1"


def test_a_tenant_that_is_gone_gets_no_row(make):
    queues, (one,) = make(), tenants(1)
    pk = one.pk
    one.delete()
    assert queues.queue_for("t0", pk, "bulk").name.startswith("mine-shared.")
    assert set(in_use().values()) == {None}


def test_a_slug_that_makes_no_name_is_refused(make):
    with pytest.raises(ValueError, match="^tenant "):
        make().queue_for("No Slug", 1, "bulk")
