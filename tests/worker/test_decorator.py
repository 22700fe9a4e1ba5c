"""`@job`, and what may be imported before Django is set up."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest
from celery import Task

from project.celery import app
from scheduling import InvalidField, JobTask, job
from tests.processes import ROOT


def test_it_makes_a_job_task_of_a_function_with_or_without_options():
    @job
    def bare(value):
        return value + 1

    @job(name=f"tests.{uuid4().hex}", ignore_result=True, bind=True)
    def with_options(self, value):
        return self.name, value

    assert isinstance(bare, JobTask)
    assert bare.name == f"{__name__}.bare"
    assert bare(1) == 2
    assert with_options(2) == (with_options.name, 2)
    assert with_options.ignore_result is True


def test_it_takes_a_task_class_of_ones_own():
    class Mine(JobTask):
        abstract = True

    @job(base=Mine)
    def task():
        """Nothing."""

    assert isinstance(task, Mine)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("acks_late", False),
        ("acks_on_failure", False),
        ("acks_on_timeout", False),
        ("acks_on_failure_or_timeout", False),
        ("reject_on_worker_lost", True),
        ("retry_on_worker_lost", True),
        ("base", Task),
        ("base", "scheduling.JobTask"),
    ],
)
def test_it_refuses_what_would_break_the_guarantees(option, value):
    with pytest.raises(InvalidField, match=f"^{option} "):
        job(**{option: value})


def test_shared_task_with_such_an_option_is_refused_when_it_is_bound():
    def task():
        """Nothing."""

    make_task: Any = app.task
    with pytest.raises(InvalidField, match=r"^acks_late False: is always True"):
        make_task(task, name="tests.unsafe", base=JobTask, acks_late=False, shared=False)


def test_settings_of_the_project_do_not_change_a_jobs_task(monkeypatch):
    monkeypatch.setitem(app.conf.changes, "task_acks_late", False)
    monkeypatch.setitem(app.conf.changes, "task_reject_on_worker_lost", True)
    monkeypatch.setitem(app.conf.changes, "task_acks_on_failure_or_timeout", False)

    @job
    def under_them():
        """Nothing."""

    task = under_them
    assert (task.acks_late, task.reject_on_worker_lost, task.acks_on_failure) == (True, False, True)


def test_a_positional_option_is_refused():
    with pytest.raises(InvalidField, match=r"^function 'shop\.charge'"):
        job("shop.charge")  # type: ignore[arg-type]


def test_the_public_names_can_be_imported_before_django_is_set_up():
    code = "from scheduling import *; import scheduling; print(job, JobTask, current_job(None), scheduling.LeaseLost)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={}, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "None" in done.stdout


def test_an_unknown_public_name_is_an_attribute_error():
    import scheduling

    with pytest.raises(AttributeError, match="nonsense"):
        _ = scheduling.nonsense
