"""One run at a time in a run folder. The lock is the kernel's: it ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduling.core.errors import FairbeatError, InvalidField


class RunDirInUse(FairbeatError):
    """Another living run has its servers in this folder."""


@contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Hold `run_dir`, made where it is missing.

    Raises `RunDirInUse` at once where another process holds it, `InvalidField` where this one may not write in it.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        file = (run_dir / "lock").open("a+")
    except OSError as error:
        raise InvalidField("FAIRBEAT_RUN_DIR", str(run_dir), f"no run can keep its files there: {error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise RunDirInUse(
                f"{run_dir} is in use by another run (process {holder}): stop that one first, or set FAIRBEAT_RUN_DIR"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
