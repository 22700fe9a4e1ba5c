"""What a person asks of the demo: read, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from project.demo.options import OWN_JOBS, Options, read_options
from scheduling.core.errors import InvalidField


def test_without_a_wish_it_runs_its_own_jobs_until_it_is_stopped():
    assert read_options([], {"SECONDS": "", "SPEED": "", "JOBS": ""}) == Options(seconds=None, speed=1.0, jobs=OWN_JOBS)


def test_wishes_come_from_the_environment_and_an_option_goes_before(tmp_path: Path):
    jobs = tmp_path / "j.jsonl"
    jobs.touch()
    environ = {"SECONDS": "70", "SPEED": "1440", "JOBS": str(jobs)}

    assert read_options([], environ) == Options(seconds=70, speed=1440, jobs=jobs)
    assert read_options(["--seconds", "2.5", "--speed=1"], environ) == Options(seconds=2.5, speed=1, jobs=jobs)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"SECONDS": "soon"}, "SECONDS 'soon': is not a number"),
        ({"SECONDS": "0"}, "SECONDS '0': is not above 0 and up to 2,592,000"),
        ({"SPEED": "-1"}, "SPEED '-1': is not above 0 and up to 1,000,000"),
        ({"SPEED": "nan"}, "SPEED 'nan': is not above 0 and up to 1,000,000"),
        ({"JOBS": "/no/such"}, "JOBS '/no/such': there is no such file"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(environ: dict[str, str], sentence: str):
    with pytest.raises(InvalidField) as refused:
        read_options([], environ)
    assert str(refused.value) == sentence
