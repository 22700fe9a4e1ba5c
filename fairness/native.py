"""The fair queue, compiled: `make native` makes machine code of what decides whose turn it is, `make pure` removes it.

mypyc puts an extension beside each source, and Python imports that one; nothing else changes, and nothing needs it. A
C compiler and Python's headers are needed once. What is compiled does not follow an edit of its source: a system check
tells. docs/decisions/native.md says what it gives, and why so.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

CORE = Path(__file__).resolve().parent / "core"
ROOT = CORE.parent.parent
MODULES = (
    "agenda", "seats", "node", "branch", "tree", "parking", "books", "turns", "across_nodes", "fair_queue",
    "caps", "rate",
)  # fmt: skip
TOLD = 20  # lines of what went wrong


class NotCompiled(Exception):
    """Why the fair queue stays what it was."""


def extensions() -> list[Path]:
    """What Python imports in place of a source, if it was compiled by a Python such as this one."""
    return [path for module in MODULES if (path := CORE / f"{module}{EXTENSION_SUFFIXES[0]}").exists()]


def outdated() -> list[Path]:
    """Sources that have changed since they were compiled."""
    found = [(extension, CORE / f"{extension.name.partition('.')[0]}.py") for extension in extensions()]
    return [source for extension, source in found if source.stat().st_mtime > extension.stat().st_mtime]


def build() -> None:
    """Compile all modules, in place of what was compiled before. Raises NotCompiled."""
    if shutil.which("cc") is None:
        raise NotCompiled("there is no C compiler: install one, with Python's headers (Debian: gcc python3-dev)")
    mypyc = Path(sys.executable).with_name("mypyc")
    if not mypyc.exists():
        raise NotCompiled(f"{mypyc} is missing: install requirements-dev.txt")
    remove()
    sources = [str((CORE / f"{module}.py").relative_to(ROOT)) for module in MODULES]
    done = subprocess.run([mypyc, *sources], cwd=ROOT, capture_output=True, text=True, check=False)
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    if done.returncode or len(extensions()) < len(MODULES):
        remove()
        said = (done.stdout + done.stderr).splitlines()
        raise NotCompiled("\n".join(["mypyc failed:", *said[-TOLD:]]))


def remove() -> None:
    """Back to the sources."""
    for path in [*extensions(), *ROOT.glob(f"*__mypyc{EXTENSION_SUFFIXES[0]}")]:
        path.unlink()


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 where it could not be compiled, which changes nothing of how it works."""
    parser = argparse.ArgumentParser(prog="python -m fairness.native", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--remove", action="store_true", help="back to Python")
    if parser.parse_args(arguments).remove:
        remove()
        return 0
    try:
        build()
    except NotCompiled as why:
        sys.stderr.write(f"{why}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
