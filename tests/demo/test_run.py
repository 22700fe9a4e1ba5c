"""How the demo leaves what it used."""

from __future__ import annotations

from typing import Any

import kombu
import pytest
from django.db import connection

from fairness.models import Tenant
from fairness.queues import QueuePlan
from project.demo.run import _clean

pytestmark = [pytest.mark.redis, pytest.mark.django_db(transaction=True)]


def test_its_queues_go_also_when_a_signal_came_in_the_middle_of_a_query(redis_url: str, unique: str):
    plan = QueuePlan(prefix=unique)
    Tenant.objects.create(slug="acme")
    with kombu.Connection(redis_url) as link:
        link.SimpleQueue(plan.queue_name("acme", "bulk")).put("left over")
    assert connection.connection is not None
    connection.connection.pgconn.send_query(b"SELECT 1")  # and the handler raised before there was an answer

    _clean(redis_url, plan)

    with kombu.Connection(redis_url) as link:
        channel: Any = link.default_channel
        assert channel.client.llen(plan.queue_name("acme", "bulk")) == 0
