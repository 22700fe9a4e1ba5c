"""The settings of a deployment: what its stop presets, and the sentence that refuses what is wrong."""

from __future__ import annotations

from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import LazySettings

from scheduling.checks import check_settings
from scheduling.conf import Coordination, SchedulingSettings, Stop, Store, problems, scheduling_settings


def sentences(**given: Any) -> list[str]:
    return list(problems(SimpleNamespace(SCHEDULING=given)))


def configured(**given: Any) -> SchedulingSettings:
    return scheduling_settings(SimpleNamespace(SCHEDULING=given))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"STORE": "redis"}, "SCHEDULING['STORE'] 'redis': is not one of indexed, bucketed"),
        ({"STORE": ""}, "SCHEDULING['STORE'] '': is not one of indexed, bucketed"),
        ({"STORE": 4, "STOP": 4}, "SCHEDULING['STORE'] 4: is not one of indexed, bucketed"),
        ({"STORE": ["bucketed"]}, "SCHEDULING['STORE'] ['bucketed']: is not one of indexed, bucketed"),
        (
            {"STORE": "bucketed", "STOP": 1},
            "SCHEDULING['STORE'] 'bucketed': needs owners of shards, which come with stop 3",
        ),
        (
            {"STORE": "bucketed", "STOP": 2},
            "SCHEDULING['STORE'] 'bucketed': needs owners of shards, which come with stop 3",
        ),
        ({"COORDINATOR": "zookeeper"}, "SCHEDULING['COORDINATOR'] 'zookeeper': is not one of postgres, etcd"),
        ({"COORDINATOR": None}, "SCHEDULING['COORDINATOR'] None: is not one of postgres, etcd"),
        (
            {"COORDINATOR": "etcd", "STOP": 1},
            "SCHEDULING['COORDINATOR'] 'etcd': needs owners of shards, which come with stop 3",
        ),
        (
            {"COORDINATOR": "etcd", "STOP": 2},
            "SCHEDULING['COORDINATOR'] 'etcd': needs owners of shards, which come with stop 3",
        ),
        ({"MASK_KEYS": "password"}, "SCHEDULING['MASK_KEYS'] 'password': is not a list of words"),
        ({"MASK_KEYS": ["iban", ""]}, "SCHEDULING['MASK_KEYS'] ['iban', '']: is not a list of words"),
        ({"ETCD_URLS": 2379}, "SCHEDULING['ETCD_URLS'] 2379: is neither text nor a list of texts"),
        ({"ETCD_URLS": []}, "SCHEDULING['ETCD_URLS'] []: is neither text nor a list of texts"),
        *(
            (
                {"ETCD_URLS": urls},
                f"SCHEDULING['ETCD_URLS'] {shown!r}: holds something else than http://HOST:PORT or https://HOST:PORT"
                " (name and password go to ETCD_USER)",
            )
            for urls, shown in (
                ("etcd:2379", "etcd:2379"),
                ("http://etcd", "http://etcd"),
                ("http://a:2379,,http://b:2379", "http://a:2379,,http://b:2379"),
                (["http://me:s3cret@a:2379"], ["http://…@a:2379"]),
            )
        ),
        ({"ETCD_PREFIX": ""}, "SCHEDULING['ETCD_PREFIX'] '': is not text"),
        ({"STOP": 5}, "SCHEDULING['STOP'] 5: is not one of 1, 2, 3, 4"),
        ({"STOP": "3"}, "SCHEDULING['STOP'] '3': is not one of 1, 2, 3, 4"),
        ({"SHARDS": 0}, "SCHEDULING['SHARDS'] 0: is not a whole number above 0"),
        ({"SHARDS": 6.4}, "SCHEDULING['SHARDS'] 6.4: is not a whole number above 0"),
        ({"SHARDS": True}, "SCHEDULING['SHARDS'] True: is not a whole number above 0"),
        ({"GROUPS": 0}, "SCHEDULING['GROUPS'] 0: is not a whole number above 0"),
        ({"GROUPS": 1.5}, "SCHEDULING['GROUPS'] 1.5: is not a whole number above 0"),
        ({"GROUPS": 65}, "SCHEDULING['GROUPS'] 65: is more than the 64 shards"),
        ({"CAPACITY": 0}, "SCHEDULING['CAPACITY'] 0: is not a number above 0"),
        ({"CAPACITY": inf}, "SCHEDULING['CAPACITY'] inf: is not a number above 0"),
        ({"CAPACITY": nan}, "SCHEDULING['CAPACITY'] nan: is not a number above 0"),
        ({"WINDOW_S": "1"}, "SCHEDULING['WINDOW_S'] '1': is not a number above 0"),
        ({"HEALTH": "8081"}, "SCHEDULING['HEALTH'] '8081': is not HOST:PORT, such as 127.0.0.1:8081"),
        ({"HEALTH": 8081}, "SCHEDULING['HEALTH'] 8081: is not text"),
        ({"CODE_JOBS": "merge"}, "SCHEDULING['CODE_JOBS'] 'merge': is not one of keep, overwrite"),
        ({"QUEUE_PREFIX": ""}, "SCHEDULING['QUEUE_PREFIX'] '': is not text"),
        ({"LEASE_S": 0.8}, "SCHEDULING['RENEW_S'] 0.5: a lease of 0.8 s must be renewed at least twice within it"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    assert sentences(**given) == [sentence]
    with pytest.raises(ValueError, match="^SCHEDULING") as refused:
        configured(**given)
    assert str(refused.value) == sentence


def test_an_unknown_setting_is_refused_with_the_names_of_all() -> None:
    (sentence,) = sentences(STORES="bucketed")
    assert sentence.startswith("SCHEDULING['STORES']: no such setting; there are AHEAD, BACKLOG, ")
    assert "STOP, STORE, THREADS" in sentence


def test_every_problem_is_named_and_a_system_check_says_them_all_at_start(settings: LazySettings) -> None:
    settings.SCHEDULING = {"STORE": "redis", "STOP": 0}
    said = [message.msg for message in check_settings()]
    assert [sentence.split("]")[0] for sentence in said] == ["SCHEDULING['STORE'", "SCHEDULING['STOP'"]
    with pytest.raises(ValueError, match=r"'STORE'.*\n.*'STOP'"):
        scheduling_settings(settings)


@pytest.mark.parametrize(
    ("given", "store"),
    [
        ({}, Store.INDEXED),
        ({"STOP": 1}, Store.INDEXED),
        ({"STOP": 2}, Store.INDEXED),
        ({"STOP": 3}, Store.INDEXED),
        ({"STOP": 4}, Store.BUCKETED),
        ({"STOP": 4, "STORE": None}, Store.BUCKETED),
        ({"STOP": 1, "STORE": "indexed"}, Store.INDEXED),
        ({"STOP": 3, "STORE": "bucketed"}, Store.BUCKETED),
        ({"STOP": 4, "STORE": "indexed"}, Store.INDEXED),
    ],
    ids=str,
)
def test_the_store_is_the_stops_unless_it_is_set(given: dict[str, Any], store: Store) -> None:
    found = configured(**given)
    assert found.store is store
    assert found.STOP is Stop(given.get("STOP", 3))


@pytest.mark.parametrize(
    "urls",
    ["http://a:2379, https://[::1]:2379", ["http://a:2379", "https://[::1]:2379"]],
    ids=str,
)
def test_the_members_of_an_etcd_are_a_list_or_joined_by_commas(urls: Any) -> None:
    found = configured(COORDINATOR="etcd", ETCD_URLS=urls)
    assert found.ETCD_URLS == ("http://a:2379", "https://[::1]:2379")


def test_nodes_keep_their_leases_in_postgres_unless_told_otherwise() -> None:
    assert configured(STOP=4).COORDINATOR is Coordination.POSTGRES
    assert configured(STOP=4, COORDINATOR="etcd").COORDINATOR is Coordination.ETCD


def test_other_words_of_secrets_take_the_place_of_ours() -> None:
    given = {"iban": 1, "password": 2}
    assert configured().mask.value(given) == {"iban": "********", "password": "********"}
    assert configured(MASK_KEYS=["iban"]).mask.value(given) == {"iban": "********", "password": 2}
    assert configured(MASK_KEYS=[]).mask.value(given) == given
