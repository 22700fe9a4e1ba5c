"""What is etcd's own way of coordinating: keys and leases, and what becomes of them when one side hears nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from signal import SIGCONT, SIGSTOP
from threading import Event
from threading import enumerate as living_threads

import pytest

from project.environment.etcd import Member
from scheduling.coordination import etcd_watch
from scheduling.coordination.etcd import EtcdCoordinator
from scheduling.coordination.etcd_client import OPERATIONS
from scheduling.models import JobClock, Node, Shard
from scheduling.store.port import StoreUnavailable
from tests.coordination.etcd_world import SHARDS, EtcdWorld, database_place, renewed, renewed_at_last
from tests.processes import PATIENCE_S, eventually
from tests.proxy import Proxy, Way

ALL = frozenset(range(SHARDS))
NONE = frozenset[int]()


def watched(node: EtcdCoordinator) -> Event:
    changed = Event()
    node.watch(changed.set)
    return changed


def wait_until(monotonic: float) -> None:
    eventually(lambda: time.monotonic() > monotonic)


# -- keys -----------------------------------------------------------------------------------------------------------


def test_all_keys_of_a_node_live_by_one_lease(etcd_world: EtcdWorld) -> None:
    etcd_world.joined("a").renew()
    found = etcd_world.etcd.read(f"{etcd_world.prefix}/")
    assert len(found) == 1 + SHARDS
    assert {key.lease for key in found} == {etcd_world.lease("a")}
    assert etcd_world.keys("nodes") == {f"{etcd_world.prefix}/nodes/a": '{"weight": 1.0, "region": "here"}'}
    assert etcd_world.keys("shards") == {f"{etcd_world.prefix}/shards/{shard}": "a" for shard in ALL}


def test_a_shard_is_mine_only_once_its_key_is(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a")
    lease = etcd_world.etcd.grant(60)
    etcd_world.etcd.create({f"{etcd_world.prefix}/shards/3": "b"}, lease)
    assert node.renew().mine == ALL - {3}
    etcd_world.etcd.revoke(lease)
    assert node.renew().mine == ALL


def test_more_shards_than_a_transaction_takes_are_taken_and_released(
    committed_db: None, etcd_url: str, unique: str
) -> None:
    world = EtcdWorld(etcd_url, unique, shards=2 * OPERATIONS + 1)
    node = world.joined("a")
    shards = node.renew().mine
    assert shards == frozenset(range(world.shards)) == world.owned("a")
    node.release(shards)
    assert world.owned("a") == NONE
    world.close()


def test_a_key_that_no_node_wrote_is_named(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a")
    lease = etcd_world.etcd.grant(60)
    etcd_world.etcd.put(f"{etcd_world.prefix}/nodes/b", "nonsense", lease)
    with pytest.raises(StoreUnavailable, match=r"nodes/b was written by no node: 'nonsense'"):
        node.renew()
    etcd_world.etcd.revoke(lease)
    assert node.renew().mine == ALL


# -- what was lost is taken anew ------------------------------------------------------------------------------------


def test_a_shard_whose_key_is_gone_leaves_before_it_is_taken_anew(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a")
    node.renew()
    etcd_world.etcd.delete([f"{etcd_world.prefix}/shards/3"], etcd_world.lease("a"))
    assignment = node.renew()
    assert (assignment.mine, assignment.leaving) == (ALL - {3}, frozenset({3}))
    node.release(assignment.leaving)
    assignment = node.renew()
    assert (assignment.mine, assignment.leaving) == (ALL, NONE)


def test_with_a_lease_that_etcd_has_lost_every_shard_leaves_before_it_is_taken_anew(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a")
    node.renew()
    etcd_world.freeze("a")
    assignment = node.renew()
    assert (assignment.mine, assignment.leaving) == (NONE, ALL)
    assert node.renew().mine == ALL


def test_a_node_whose_own_lease_is_out_gets_its_shards_at_once_since_it_has_given_them_up(
    etcd_world: EtcdWorld,
) -> None:
    node = etcd_world.joined("a", lease_s=0.3)
    lease_until = node.renew().lease_until
    etcd_world.freeze("a")
    wait_until(lease_until)
    assignment = node.renew()
    assert (assignment.mine, assignment.leaving) == (ALL, NONE)


def test_renewals_that_etcd_hears_and_whose_answers_are_lost_do_not_keep_the_shards(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a", lease_s=1.0)
    node.renew()
    for proxy in etcd_world.proxies["a"]:
        proxy.hold(Way.BACK)
    eventually(lambda: renewed(node) is None and not etcd_world.lease("a"))
    assert etcd_world.owned("a") == NONE


def test_a_process_under_whose_name_another_joins_gets_no_shards_until_that_one_leaves(
    etcd_world: EtcdWorld, caplog: pytest.LogCaptureFixture
) -> None:
    first = etcd_world.joined("a")
    first.renew()
    second = etcd_world.joined("a")
    assert second.renew().mine == ALL
    assignment = first.renew()
    assert (assignment.mine, assignment.leaving) == (NONE, ALL)
    assert "another process has joined as node a" in caplog.text
    first.release(assignment.leaving)
    assert second.renew().mine == ALL
    second.leave()
    assert first.renew().mine == ALL


# -- the database ---------------------------------------------------------------------------------------------------


@pytest.fixture
def database() -> Iterator[Proxy]:
    """A way to the database that a test may cut."""
    proxy = Proxy(database_place())
    yield proxy
    proxy.close()


@pytest.fixture
def cut_off_world(committed_db: None, etcd_url: str, unique: str, database: Proxy) -> Iterator[EtcdWorld]:
    """Its nodes reach the database by that way."""
    world = EtcdWorld(etcd_url, unique, database=database)
    yield world
    database.accept_again()
    world.close()


def test_people_see_the_node_and_what_it_owns_in_the_database(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a")
    etcd_world.own("a", node.renew().mine)
    row = Node.objects.get()
    assert (row.id, row.region, row.weight) == ("a", "here", 1.0)
    assert row.lease_until > JobClock.objects.now()
    node.release([1, 2])
    assert set(Shard.objects.filter(owner=None, id__in=ALL).values_list("id", flat=True)) == {1, 2}
    Node.objects.all().delete()
    node.renew()
    assert Node.objects.get().id == "a"
    node.leave()
    assert Node.objects.get().lease_until <= JobClock.objects.now()
    assert not Shard.objects.filter(owner="a").exists()


def test_a_database_that_is_gone_for_less_than_a_lease_changes_nothing(
    cut_off_world: EtcdWorld, database: Proxy
) -> None:
    node = cut_off_world.joined("a")
    node.renew()
    database.cut(refuse=True)
    assignment = node.renew()
    assert (assignment.mine, assignment.leaving) == (ALL, NONE)
    Node.objects.update(lease_until=JobClock.objects.now())
    database.accept_again()
    node.renew()
    assert Node.objects.get().lease_until > JobClock.objects.now()


def test_a_node_that_reaches_etcd_and_not_the_database_lets_others_have_its_shards(
    cut_off_world: EtcdWorld, etcd_world: EtcdWorld, database: Proxy
) -> None:
    cut_off, other = cut_off_world.joined("a", lease_s=1.0), etcd_world.joined("b")
    cut_off.renew()
    other.renew()
    database.cut(refuse=True)
    eventually(lambda: renewed(cut_off) is None and other.renew().mine == ALL)
    with pytest.raises(StoreUnavailable, match="the database has not answered this node"):
        cut_off.renew()
    database.accept_again()
    assert cut_off.renew().mine == NONE
    other.release(other.renew().leaving)
    assert cut_off.renew().mine


# -- etcd that comes and goes ---------------------------------------------------------------------------------------


def test_where_etcd_is_down_a_renewal_says_so_soon(own_world: EtcdWorld, own_etcd: Member) -> None:
    node = own_world.joined("a", lease_s=2.0)
    node.renew()
    own_etcd.kill()
    before = time.monotonic()
    with pytest.raises(StoreUnavailable, match="etcd does not answer"):
        node.renew()
    assert time.monotonic() - before < 2.0


def test_where_etcd_is_frozen_a_renewal_says_so_before_the_lease_is_out(own_world: EtcdWorld, own_etcd: Member) -> None:
    node = own_world.joined("a", lease_s=2.0)
    lease_until = node.renew().lease_until
    own_etcd.signal(SIGSTOP)
    with pytest.raises(StoreUnavailable, match="timed out"):
        node.renew()
    assert time.monotonic() < lease_until
    own_etcd.signal(SIGCONT)


def test_a_restart_of_etcd_within_the_lease_changes_nothing(own_world: EtcdWorld, own_etcd: Member) -> None:
    node = own_world.joined("a")
    node.renew()
    lease = own_world.lease("a")
    own_etcd.kill()
    own_etcd.start()
    assignment = renewed_at_last(node)
    assert (assignment.mine, assignment.leaving) == (ALL, NONE)
    assert own_world.lease("a") == lease


# -- the watch ------------------------------------------------------------------------------------------------------


def test_who_watches_is_told_when_a_lease_has_run_out(etcd_world: EtcdWorld) -> None:
    a, b = etcd_world.joined("a"), etcd_world.joined("b", lease_s=1.0)
    a.renew()
    a.release(a.renew().leaving)
    b.renew()
    changed = watched(a)
    assert changed.wait(PATIENCE_S)
    assert a.renew().mine == ALL


def test_who_watches_is_told_again_after_etcd_was_down(own_world: EtcdWorld, own_etcd: Member) -> None:
    changed = watched(own_world.joined("a"))
    own_etcd.kill()
    own_etcd.start()
    assert changed.wait(PATIENCE_S), "something may have happened in between"
    changed.clear()
    own_world.joined("b")
    assert changed.wait(PATIENCE_S)


def test_a_watch_that_is_silent_for_long_is_begun_anew(etcd_world: EtcdWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_watch, "IDLE_S", 0.1)
    assert watched(etcd_world.joined("a")).wait(PATIENCE_S)


def test_a_node_that_leaves_ends_its_watch(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a")
    watched(node)
    assert watches()
    node.leave()
    eventually(lambda: not watches())


def test_a_watch_that_hears_nothing_ends_all_the_same(etcd_world: EtcdWorld) -> None:
    node = etcd_world.joined("a", lease_s=2.0)
    watched(node)
    for proxy in etcd_world.proxies["a"]:
        proxy.hold(Way.BACK)
    with pytest.raises(StoreUnavailable):
        node.leave()
    eventually(lambda: not watches())


def watches() -> list[str]:
    return [thread.name for thread in living_threads() if thread.name == "etcd watch"]
