"""The few things that a coordinator asks of etcd: leases, and keys that live as long as one.

Each may be carried out twice without harm: a second ``create`` finds the key there, a second lease ends by itself.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from scheduling.coordination.etcd_gateway import EtcdGateway, EtcdRefused, Json, Stream

NOT_FOUND = 404  # the status of a lease that is no more
OPERATIONS = 100  # in one transaction: etcd takes 128, and a nested one counts for itself


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key with its value; ``lease`` is empty where it has none."""

    key: str
    value: str
    lease: str


class EtcdClient:
    """Raises EtcdRefused, StoreUnavailable. A lease is named by etcd's number for it, as text."""

    def __init__(self, gateway: EtcdGateway) -> None:
        self._gateway = gateway

    def grant(self, ttl_s: int) -> str:
        """A new lease. etcd may give it longer than it was asked for, and not shorter."""
        lease: str = self._gateway.call("/v3/lease/grant", {"TTL": ttl_s})["ID"]
        return lease

    def keep_alive(self, lease: str) -> bool:
        """Whether the lease goes on, from now on as long as it was granted; if not, its keys are gone."""
        return "TTL" in self._gateway.call("/v3/lease/keepalive", {"ID": lease})

    def revoke(self, lease: str) -> None:
        """End the lease, and with it its keys."""
        try:
            self._gateway.call("/v3/lease/revoke", {"ID": lease})
        except EtcdRefused as refused:
            if refused.status != NOT_FOUND:
                raise

    def put(self, key: str, value: str, lease: str) -> None:
        self._gateway.call("/v3/kv/put", _put(key, value, lease))

    def read(self, prefix: str) -> list[KeyValue]:
        """All keys with this prefix, at one moment, as the majority of the members has them."""
        answer = self._gateway.call("/v3/kv/range", _range(prefix))
        return [_key_value(found) for found in answer.get("kvs", ())]

    def create(self, entries: Mapping[str, str], lease: str) -> set[str]:
        """Make these keys where they do not exist; returns those that were made."""
        made: set[str] = set()
        for chunk in _chunks(list(entries)):
            operations = [_if_absent(key, _put(key, entries[key], lease)) for key in chunk]
            made.update(key for key, done in zip(chunk, self._each(operations), strict=True) if done)
        return made

    def delete(self, keys: Sequence[str], lease: str) -> None:
        """Remove those of the keys that live by this lease."""
        for chunk in _chunks(keys):
            self._each([_if_of_lease(key, lease) for key in chunk])

    def watch(self, prefix: str, *, idle_s: float) -> Stream:
        """What happens to these keys from now on: answers with ``events``, each with the key as it was before."""
        request = _range(prefix) | {"prev_kv": True}
        return self._gateway.stream("/v3/watch", {"create_request": request}, idle_s=idle_s)

    def close(self) -> None:
        self._gateway.close()

    def _each(self, operations: Sequence[Json]) -> list[bool]:
        """Carry out conditional operations in one transaction, each by itself; which of them were."""
        body = {"success": [{"request_txn": operation} for operation in operations]}
        responses = self._gateway.call("/v3/kv/txn", body)["responses"]
        return [response["response_txn"].get("succeeded", False) for response in responses]


def decoded(text: str) -> str:
    """A key or a value as etcd's JSON has it."""
    return b64decode(text).decode()


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _key_value(found: Json) -> KeyValue:
    return KeyValue(decoded(found["key"]), decoded(found.get("value", "")), found.get("lease", ""))


def _range(prefix: str) -> Json:
    return {"key": _encoded(prefix), "range_end": _encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _put(key: str, value: str, lease: str) -> Json:
    return {"key": _encoded(key), "value": _encoded(value), "lease": lease}


def _if_absent(key: str, put: Json) -> Json:
    return {
        "compare": [{"key": _encoded(key), "target": "VERSION", "result": "EQUAL", "version": "0"}],
        "success": [{"request_put": put}],
    }


def _if_of_lease(key: str, lease: str) -> Json:
    return {
        "compare": [{"key": _encoded(key), "target": "LEASE", "result": "EQUAL", "lease": lease}],
        "success": [{"request_delete_range": {"key": _encoded(key)}}],
    }


def _chunks(keys: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(keys)
    while chunk := list(islice(rest, OPERATIONS)):
        yield chunk
