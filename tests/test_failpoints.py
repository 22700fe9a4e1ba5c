"""Failpoints: what arms them, what they do, and when. (That the code passes them: node/test_failpoints_reached.py.)"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from scheduling import failpoints
from scheduling.core.errors import InvalidField
from scheduling.failpoints import VARIABLE, FailpointReached, Point, arm_from_environment, armed, failpoint
from tests.processes import PATIENCE_S, ROOT

PROGRAM = """
from scheduling.failpoints import Point, arm_from_environment, failpoint
arm_from_environment()
failpoint(Point.CLAIM_BEFORE)
print("alive")
"""


@pytest.fixture(autouse=True)
def _disarmed_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_armed", {})


def start(what: str) -> subprocess.Popen[str]:
    """A process that passes `claim.before`, and says that it is alive."""
    environ = os.environ | {VARIABLE: f"claim.before={what}"}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)


def hits(times: int) -> list[int]:
    """At which of so many times the point raised; counted from 1."""
    raised = []
    for number in range(1, times + 1):
        try:
            failpoint(Point.CLAIM_BEFORE)
        except FailpointReached:
            raised.append(number)
    return raised


def test_without_the_variable_nothing_happens() -> None:
    arm_from_environment({})
    arm_from_environment({VARIABLE: " ; "})
    assert hits(100) == []


def test_a_process_can_be_killed() -> None:
    killed = start("kill")
    assert killed.communicate(timeout=PATIENCE_S)[0] == ""
    assert killed.returncode == -signal.SIGKILL


def test_a_process_can_be_frozen_and_goes_on_when_it_is_woken() -> None:
    frozen = start("freeze")
    _, status = os.waitpid(frozen.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(frozen.pid, signal.SIGCONT)
    assert frozen.communicate(timeout=PATIENCE_S)[0] == "alive\n"


def test_a_point_can_fail_at_each_hit_or_at_one() -> None:
    arm_from_environment({VARIABLE: "claim.before=fail; publish.sent=kill"})
    assert hits(3) == [1, 2, 3]
    with pytest.raises(FailpointReached, match="^failpoint claim.before$"):
        failpoint(Point.CLAIM_BEFORE)
    failpoint(Point.CLAIM_COMMITTED)  # another one


def test_a_point_can_fail_at_one_hit_alone() -> None:
    arm_from_environment({VARIABLE: "claim.before = fail#3"})
    assert hits(9) == [3]


def test_a_point_can_fail_with_a_probability() -> None:
    arm_from_environment({VARIABLE: "claim.before=fail@0.5"})
    assert 120 < len(hits(400)) < 280  # beyond that: once in 10¹⁵ runs


def test_a_point_can_wait() -> None:
    arm_from_environment({VARIABLE: "claim.before=sleep:0.05#1"})
    began = time.monotonic()
    failpoint(Point.CLAIM_BEFORE)
    assert time.monotonic() - began >= 0.05


def test_what_is_done_is_said(caplog: pytest.LogCaptureFixture) -> None:
    arm_from_environment({VARIABLE: "claim.before=sleep:0#2"})
    hits(3)
    assert caplog.messages == ["failpoint claim.before=sleep:0#2"]


def test_to_arm_twice_counts_on() -> None:
    for _ in range(2):
        arm_from_environment({VARIABLE: "claim.before=fail#3"})
        failpoint(Point.CLAIM_BEFORE)
    assert hits(3) == [1]


def test_a_test_arms_a_point_for_a_while_and_another_within() -> None:
    seen: list[str] = []
    arm_from_environment({VARIABLE: "claim.before=fail"})
    with armed(Point.CLAIM_BEFORE, lambda: seen.append("outer")):
        with armed(Point.CLAIM_COMMITTED, lambda: seen.append("inner")):
            failpoint(Point.CLAIM_COMMITTED)
        failpoint(Point.CLAIM_COMMITTED)
        failpoint(Point.CLAIM_BEFORE)
    assert seen == ["inner", "outer"]
    assert hits(1) == [1]


FORM = "is not point=action"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "claim.befor=kill",
            "there is no point 'claim.befor'; there are take_over.before, take_over.committed, claim.",
        ),
        ("kill", "there is no point 'kill'"),
        ("claim.before", FORM),
        ("claim.before=", FORM),
        ("claim.before=explode", FORM),
        ("claim.before=killed", FORM),
        ("claim.before=kill@0", FORM),
        ("claim.before=kill@1.5", FORM),
        ("claim.before=kill#0", FORM),
        ("claim.before=kill#-1", FORM),
        ("claim.before=kill#2@0.5", FORM),
        ("claim.before=sleep", "it is sleep, and nothing else, that has an argument: the seconds"),
        ("claim.before=kill:3", "it is sleep, and nothing else, that has an argument: the seconds"),
    ],
)
def test_what_names_no_point_or_no_action_is_refused_whole(text: str, problem: str) -> None:
    with pytest.raises(InvalidField) as refused:
        arm_from_environment({VARIABLE: f"publish.sent=fail; {text}"})
    assert str(refused.value).startswith(f"{VARIABLE} {text!r}: {problem}")
    failpoint(Point.PUBLISH_SENT)
