"""Which exceptions are tried again."""

from __future__ import annotations

import pytest

from scheduling import Cancel, InvalidField, JobTask, StaleWrite, StepInDoubt, job
from scheduling.worker.policy import RetryPolicy, policy_of


class Nearest(ConnectionResetError):
    """A kind of OSError."""


@pytest.mark.parametrize(
    ("policy", "error", "again"),
    [
        (RetryPolicy(), ValueError(), True),
        (RetryPolicy(give_up_on=(ValueError,)), ValueError(), False),
        (RetryPolicy(give_up_on=(ValueError,)), UnicodeError(), False),
        (RetryPolicy(give_up_on=(ValueError,)), OSError(), True),
        (RetryPolicy(retry_on=(OSError,)), Nearest(), True),
        (RetryPolicy(retry_on=(OSError,)), ValueError(), False),
        (RetryPolicy(retry_on=(OSError,), give_up_on=(ConnectionResetError,)), Nearest(), False),
        (RetryPolicy(retry_on=(ConnectionResetError,), give_up_on=(OSError,)), Nearest(), True),
        (RetryPolicy(), StepInDoubt(), False),
        (RetryPolicy(), StaleWrite(), False),
        (RetryPolicy(retry_on=(StepInDoubt,)), StepInDoubt(), True),
    ],
)
def test_the_class_nearest_to_what_was_raised_decides(policy, error, again):
    assert policy.is_worth_another(error) is again


def test_celerys_words_mean_the_same(define):
    task = define(lambda: None, autoretry_for=[OSError], dont_autoretry_for=[KeyError], max_retries=7)
    assert policy_of(task) == RetryPolicy(retry_on=(OSError,), give_up_on=(KeyError,), max_retries=7)


def test_ours_go_before_celerys(define):
    task = define(lambda: None, retry_on=ValueError, autoretry_for=[OSError])
    assert policy_of(task).retry_on == (ValueError,)


def test_celerys_own_default_of_retries_is_nobodys_wish(define):
    assert policy_of(define(lambda: None)).max_retries is None
    assert policy_of(define(lambda: None, max_retries=3)).max_retries == 3


def test_a_base_class_of_ones_own_may_set_it(define):
    class Careful(JobTask):
        abstract = True
        max_retries = 1
        give_up_on = (OSError,)

    assert policy_of(define(lambda: None, base=Careful)) == RetryPolicy(give_up_on=(OSError,), max_retries=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"retry_on": "OSError"}, "^retry_on 'OSError': is not an exception class, nor a tuple of them$"),
        ({"give_up_on": (OSError, 7)}, "^give_up_on .*: is not an exception class, nor a tuple of them$"),
        ({"retry_on": OSError("x")}, "^retry_on .*: is not an exception class, nor a tuple of them$"),
        ({"give_up_on": SystemExit}, "^give_up_on 'SystemExit': ends the process, and not an attempt; "),
        ({"retry_on": (Cancel,)}, "^retry_on 'Cancel': says itself how the attempt ends; leave it out$"),
        ({"retry_on": OSError, "give_up_on": [OSError, KeyError]}, "^retry_on 'OSError': is in give_up_on as well; "),
    ],
)
def test_what_is_not_clear_is_refused_where_the_task_is_made(options, sentence):
    with pytest.raises(InvalidField, match=sentence):
        job(**options)


def test_a_base_class_is_checked_too(define):
    class Unclear(JobTask):
        abstract = True
        retry_on = "OSError"

    with pytest.raises(InvalidField, match="^retry_on "):
        define(lambda: None, base=Unclear)
