"""The misfire table of docs/semantics.md, and that judging is bounded."""

import tracemalloc
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire, Lane, MisfirePolicy, Work
from scheduling.core.identity import fire_id
from scheduling.core.misfire import Candidate, Judgement, MisfireReason, MisfireRules, judge
from scheduling.core.recurrence import Cron, Rest, backlog, occurrences

NOW = datetime(2026, 1, 8, tzinfo=UTC)
WORK = Work(
    job_id=UUID(int=7),
    shard=0,
    tenant_id=1,
    tenant="acme",
    history_days=7,
    name="report",
    task="shop.tasks.report",
    lane=Lane.BULK,
    args="[]",
    kwargs="{}",
)


def rules(
    policy: str, *, limit: int = 100, window: timedelta = timedelta(hours=1), grace_s: float = 30
) -> MisfireRules:
    return MisfireRules(MisfirePolicy(policy), grace_s, limit, window)


def missed(*minutes_ago: float) -> list[Candidate]:
    """Occurrences so long ago, as a claim finds them."""
    return [Candidate(NOW - timedelta(minutes=ago), ago * 60) for ago in minutes_ago]


def ago(candidates: tuple[Candidate, ...]) -> list[float]:
    return [(NOW - candidate.scheduled_for) / timedelta(minutes=1) for candidate in candidates]


@pytest.mark.parametrize(
    ("policy", "fires", "skips", "reason"),
    [
        ("latest", [5, 0.25], [120, 50, 10], MisfireReason.COALESCED),
        ("earliest", [120, 0.25], [50, 10, 5], MisfireReason.COALESCED),
        ("all", [50, 10, 5, 0.25], [120], MisfireReason.MISSED),  # one is older than the window
        ("skip", [0.25], [120, 50, 10, 5], MisfireReason.MISSED),
    ],
)
def test_what_is_late_is_divided_by_the_policy_and_what_is_not_fires(policy, fires, skips, reason):
    judgement = judge(missed(120, 50, 10, 5, 0.25), rules(policy), now=NOW)
    assert ago(judgement.fires) == fires
    assert ago(judgement.skips) == skips
    assert judgement.reason is reason
    assert judgement.rest is None


@pytest.mark.parametrize("policy", [*MisfirePolicy])
def test_nothing_late_means_everything_fires_and_nothing_means_nothing(policy):
    assert ago(judge(missed(0.5, 0.2, -0.01), rules(policy), now=NOW).fires) == [0.5, 0.2, -0.01]
    assert judge([], rules(policy), now=NOW) == Judgement((), (), None, judge([], rules(policy), now=NOW).reason)


def test_the_grace_itself_is_still_in_time():
    assert len(judge([Candidate(NOW, 30.0)], rules("skip"), now=NOW).fires) == 1
    assert len(judge([Candidate(NOW, 30.001)], rules("skip"), now=NOW).skips) == 1


def test_the_start_of_the_window_is_still_in_it():
    assert len(judge(missed(60), rules("all"), now=NOW).fires) == 1
    assert len(judge(missed(60.01), rules("all"), now=NOW).skips) == 1


def test_a_window_may_be_longer_than_a_date_can_tell():
    judgement = judge(missed(120, 5), rules("all", window=timedelta(days=999_999)), now=NOW)
    assert ago(judgement.fires) == [120, 5]


@pytest.mark.parametrize(
    ("policy", "fires", "skips", "rest"),
    [
        ("all", [2, 1], [3], (10, 4, 7)),  # three have rows of their own, of which two are in the window
        ("latest", [1], [3, 2], (10, 4, 7)),
        ("earliest", [10], [3, 2, 1], (9, 4, 6)),
        ("skip", [], [3, 2, 1], (10, 4, 7)),
    ],
)
def test_beyond_the_limit_the_oldest_become_one_row(policy, fires, skips, rest):
    judgement = judge(missed(*range(10, 0, -1)), rules(policy, limit=3, window=timedelta(minutes=2)), now=NOW)
    assert ago(judgement.fires) == fires
    assert ago(judgement.skips) == skips
    first, last, count = rest
    assert judgement.rest == Rest(NOW - timedelta(minutes=first), NOW - timedelta(minutes=last), count)


def test_a_claimed_fire_is_told_its_own_end_however_many_there_are():
    def claimed(candidate: Candidate) -> Candidate:
        at = candidate.scheduled_for
        fire = Fire(WORK, fire_id(WORK.job_id, at), at, at, "", fence=1, attempt=0, epoch=1, seq=1)
        return Candidate(at, candidate.late_s, fire)

    with_rows, without = list(map(claimed, missed(9, 8, 7))), missed(6, 5, 4, 3, 2)
    judgement = judge([*with_rows, *without], rules("skip", limit=2), now=NOW)
    assert judgement.skips == (*with_rows, *without[-2:])
    assert judgement.rest == Rest(without[0].scheduled_for, without[2].scheduled_for, 3)


def test_an_endless_backlog_is_judged_in_little_memory():
    def a_day() -> Iterator[Candidate]:
        for second in range(86_400, -1, -1):
            yield Candidate(NOW - timedelta(seconds=second), float(second))

    tracemalloc.start()
    judgement = judge(a_day(), rules("all"), now=NOW)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(judgement.fires) == 131  # thirty-one in grace, and a hundred before them
    assert judgement.rest == Rest(NOW - timedelta(days=1), NOW - timedelta(seconds=131), 86_401 - 131)
    assert peak < 2**20


@pytest.mark.parametrize("policy", [*MisfirePolicy])
def test_a_counted_backlog_is_judged_as_a_listed_one(policy):
    schedule = Cron("*/5 * * * *", "Europe/Paris")
    span = {"after": NOW - timedelta(days=7), "until": NOW + timedelta(seconds=1)}

    def candidates(moments: Iterable[datetime]) -> list[Candidate]:
        return [Candidate(moment, (NOW - moment).total_seconds()) for moment in moments]

    some = backlog(schedule, **span, late_until=NOW - timedelta(seconds=30), keep=100)
    assert len(some.listed) == 102
    listed = judge(candidates(occurrences(schedule, **span)), rules(policy), now=NOW)
    assert judge(candidates(some.listed), rules(policy), now=NOW, counted=some.counted) == listed
    assert len(listed.fires) == {"latest": 2, "earliest": 2, "all": 13, "skip": 1}[policy]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-5, 4000), unique=True, max_size=40).map(lambda ages: sorted(ages, reverse=True)),
    st.sampled_from(list(MisfirePolicy)),
    st.integers(1, 12),
    st.integers(0, 100),
)
def test_every_occurrence_ends_once_and_in_order(ages_s, policy, limit, window_minutes):
    candidates = [Candidate(NOW - timedelta(seconds=age), float(age)) for age in ages_s]
    judgement = judge(iter(candidates), rules(policy, limit=limit, window=timedelta(minutes=window_minutes)), now=NOW)
    told = [*judgement.fires, *judgement.skips]
    summed = [candidate for candidate in candidates if candidate not in told]
    assert len(told) == len(set(told))
    assert len(told) + (judgement.rest.count if judgement.rest else 0) == len(candidates)
    if summed:
        assert judgement.rest == Rest(summed[0].scheduled_for, summed[-1].scheduled_for, len(summed))
    assert list(judgement.fires) == [candidate for candidate in candidates if candidate in judgement.fires]
    assert list(judgement.skips) == [candidate for candidate in candidates if candidate in judgement.skips]
    assert all(candidate in judgement.fires for candidate in candidates if candidate.late_s <= 30)
    late = [candidate for candidate in judgement.fires if candidate.late_s > 30]
    assert len(late) <= (limit if policy is MisfirePolicy.ALL else 1)
    assert len(judgement.skips) <= limit


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("catch_up_limit", {"limit": 0}),
        ("catch_up_window", {"window": timedelta(seconds=-1)}),
        ("misfire_grace_s", {"grace_s": -1.0}),
    ],
)
def test_rules_that_admit_nothing_are_refused(field, options):
    with pytest.raises(InvalidField) as refusal:
        rules("all", **options)
    assert refusal.value.field == field
