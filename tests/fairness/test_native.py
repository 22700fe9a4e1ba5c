"""The fair queue, compiled or not. That it is the same then, its own tests say, which CI runs both ways."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from fairness import native


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a source and what was compiled of it, an hour later."""
    monkeypatch.setattr(native, "CORE", tmp_path)
    monkeypatch.setattr(native, "ROOT", tmp_path)
    source = tmp_path / "seats.py"
    source.touch()
    extension = tmp_path / f"seats{EXTENSION_SUFFIXES[0]}"
    extension.touch()
    os.utime(source, (0, 0))
    os.utime(extension, (3600, 3600))
    return tmp_path


def test_a_source_that_changed_after_it_was_compiled_is_told_of_at_each_start(core: Path):
    call_command("check", fail_level="WARNING")

    (core / "seats.py").touch()

    with pytest.raises(SystemCheckError, match=r"seats\.py changed after it was compiled"):
        call_command("check", fail_level="WARNING")


def test_going_back_leaves_the_sources_alone(core: Path):
    assert native.main(["--remove"]) == 0
    assert [path.name for path in core.iterdir()] == ["seats.py"]


def test_without_a_compiler_it_says_so_and_all_stays_as_it_was(core: Path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(core))

    assert native.main([]) == 1

    assert "there is no C compiler" in capsys.readouterr().err
    assert native.extensions()


def test_every_module_that_is_to_be_compiled_is_there():
    assert [module for module in native.MODULES if not (native.CORE / f"{module}.py").exists()] == []
