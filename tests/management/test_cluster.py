"""``manage.py cluster``: what it prints, and how it fails."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError
from django.utils import timezone

from scheduling.models import Node, Shard, ShardProgress


@pytest.fixture
def fleet(db: None) -> None:
    now = timezone.now()
    node = Node.objects.create(id="n1", region="eu", started_at=now, lease_until=now + timedelta(minutes=1), fires=1234)
    Node.objects.create(id="n2", started_at=now, lease_until=now - timedelta(minutes=1))
    Shard.objects.filter(id__lt=8).update(owner=node, epoch=3)
    ShardProgress.objects.filter(shard_id=0).update(seq_epoch=3, seq=17)


def test_it_prints_nodes_shards_and_a_summary(fleet: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("cluster")
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"n1 +eu +yes +(5\d|60)\.\d s +1 +8 +1,234 +- +-", lines[1])
    assert lines[2].split() == ["n2", "-", "no", "-", "1", "0", "0", "-", "-"]
    assert lines[5].split() == ["0", "n1", "yes", "3", "3/17", "0.0", "s", "0"]
    assert lines[-3].split() == ["63", "-", "no", "0", "0/0", "0.0", "s", "0"]
    assert lines[-1] == "nodes alive: 1 of 2; shards owned: 8 of 64; lag: 0.0 s; unconfirmed: 0"


def test_it_prints_one_object_of_json(fleet: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("cluster", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["alive"], told["owned"], told["lag_s"], told["unconfirmed"]) == (1, 8, 0.0, 0)
    n1 = told["nodes"][0]
    assert 50 < n1.pop("lease_left_s") <= 60
    assert n1.pop("started_at").endswith("+00:00")
    assert n1 == {
        "id": "n1", "region": "eu", "alive": True, "weight": 1.0, "shards": 8, "fires": 1234,
        "latency_ms": {"p50": None, "p99": None},
    }  # fmt: skip
    assert told["shards"][0] == {
        "id": 0, "owner": "n1", "owned": True, "epoch": 3, "watermark": [3, 17], "lag_s": 0.0, "unconfirmed": 0,
    }  # fmt: skip
    assert len(told["shards"]) == 64


def test_a_database_that_does_not_answer_is_named_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr("scheduling.management.commands.cluster.cluster", refuse)
    with pytest.raises(CommandError, match="^the database does not answer: connection refused$"):
        call_command("cluster")
