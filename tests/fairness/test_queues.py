"""Names and arguments of queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.queues import LANE, SLUG, QueuePlan, choices, queue_name

slugs = st.from_regex(SLUG, fullmatch=True)
lanes = st.from_regex(LANE, fullmatch=True)


def test_a_name_holds_tenant_lane_and_version() -> None:
    assert queue_name("acme", "bulk") == "fairbeat.acme.bulk.v1"


def test_other_sizes_make_another_name_because_the_broker_refuses_other_arguments() -> None:
    plans = [
        QueuePlan(),
        QueuePlan(max_length=100),
        QueuePlan(delivery_limit=5),
        QueuePlan(max_length=100, delivery_limit=5),
    ]
    assert [plan.queue_name("acme", "bulk").removeprefix("fairbeat.acme.bulk.") for plan in plans] == [
        "v1",
        "v1-m100",
        "v1-d5",
        "v1-m100-d5",
    ]


def test_a_queue_is_a_bounded_quorum_queue_with_dead_letters_of_its_lane() -> None:
    spec = QueuePlan(max_length=70, delivery_limit=4).queue("acme", "transactional")
    assert spec.arguments == {
        "x-queue-type": "quorum",
        "x-delivery-limit": 4,
        "x-dead-letter-exchange": "fairbeat-dead",
        "x-dead-letter-routing-key": "transactional",
        "x-max-length": 70,
        "x-overflow": "reject-publish",
    }
    assert spec.dead_letters is not None
    assert spec.dead_letters.queue == "fairbeat-dead.transactional.v1"
    assert spec.dead_letters.arguments == {"x-queue-type": "quorum"}


def test_tenants_of_a_lane_share_its_dead_letter_queue() -> None:
    plan = QueuePlan()
    assert plan.queue("a", "bulk").dead_letters == plan.queue("b", "bulk").dead_letters
    assert plan.queue("a", "bulk").dead_letters != plan.queue("a", "transactional").dead_letters


@given(slugs, lanes, slugs, lanes)
def test_no_two_lanes_of_tenants_share_a_name(tenant: str, lane: str, other: str, other_lane: str) -> None:
    plan = QueuePlan()
    same = plan.queue_name(tenant, lane) == plan.queue_name(other, other_lane)
    assert same == ((tenant, lane) == (other, other_lane))
    assert plan.queue_name(tenant, lane) != plan.dead_letters(other_lane).queue
    assert plan.queue_name(tenant, lane) not in [spec.name for spec in plan.shared(other, other_lane, count=16)]


@given(slugs, lanes, st.integers(1, 99), slugs)
def test_a_message_in_a_shared_queue_is_the_tenants_that_it_names_if_that_may_use_it(
    tenant: str, lane: str, count: int, other: str
) -> None:
    plan = QueuePlan()
    for spec in plan.shared(tenant, lane, count=count):
        assert plan.owner_of(spec.name, tenant) == tenant
        assert (plan.owner(spec.name), plan.lane(spec.name)) == (None, lane)
        assert plan.spec(spec.name) == spec
        may = spec in plan.shared(other, lane, count=count)
        assert plan.owner_of(spec.name, other) == (other if may else None)
    assert plan.owner_of(plan.queue_name(tenant, lane), other) == tenant


def test_tenants_choose_two_different_queues_evenly() -> None:
    counts = [0] * 16
    for number in range(4000):
        first, second = choices(f"tenant-{number}", 16)
        assert first != second
        counts[first] += 1
        counts[second] += 1
    assert all(400 < count < 600 for count in counts)
    assert choices("acme", 16) == (3, 11)  # for ever: messages wait there
    assert choices("acme", 1) == (0, 0)


@pytest.mark.parametrize(
    "name",
    [
        "fairbeat-dead.bulk.v1",
        "fairbeat-shared.16-of-16.bulk.v1",
        "fairbeat-shared.01-of-16.bulk.v1",
        "fairbeat-shared.acme.bulk.v1",
        "other.acme.bulk.v1",
        "celery",
        "",
    ],
)
def test_a_name_that_the_plan_does_not_give_is_nobodys(name: str) -> None:
    plan = QueuePlan()
    assert (plan.owner(name), plan.lane(name), plan.spec(name), plan.owner_of(name, "acme")) == (None,) * 4


@pytest.mark.parametrize("then", [QueuePlan(), QueuePlan(max_length=7), QueuePlan(delivery_limit=3)])
def test_a_queue_of_other_sizes_is_known_by_its_name_as_it_was_declared(then: QueuePlan) -> None:
    spec = then.queue("acme.eu", "bulk")
    assert QueuePlan().spec(spec.name) == spec
    assert QueuePlan(max_length=9).spec(spec.name) == spec


@pytest.mark.parametrize("version", ["v2", "v01", "v1-m50000", "v1-m0", "v1-d20-m7"])
def test_what_no_release_of_this_shape_declares_has_no_arguments(version: str) -> None:
    assert QueuePlan().spec(f"fairbeat.acme.bulk.{version}") is None


def test_the_longest_name_fits_into_255_bytes() -> None:
    plan = QueuePlan(prefix="p" * 64, max_length=10**12, delivery_limit=10**6)
    assert len(plan.queue_name("t" * 100, "l" * 20).encode()) <= 255


@pytest.mark.parametrize("slug", ["", "Acme", "a" * 101, "a/b", "a b", "é", "a\n"])
def test_a_tenant_without_a_plain_slug_is_refused_by_name(slug: str) -> None:
    with pytest.raises(ValueError, match=r"^tenant "):
        queue_name(slug, "bulk")


@pytest.mark.parametrize(
    ("values", "field"),
    [({"prefix": "a.b"}, "prefix"), ({"max_length": 0}, "max_length"), ({"delivery_limit": 0}, "delivery_limit")],
)
def test_a_plan_that_no_broker_would_accept_names_its_field(values: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field} "):
        QueuePlan(**values)  # type: ignore[arg-type]
