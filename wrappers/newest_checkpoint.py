"""The newest checkpoint that verifies: a run may end once it exists."""

from __future__ import annotations

from pathlib import Path

from tiresias.protocol.job_log import log_line

FULL_VERIFY = 512 << 20  # bytes: larger checkpoints get their sizes checked here, and all hashes when they are restored


def newest(folder: Path) -> int | None:
    """Return its step, None without one. Log those that do not verify."""
    from tiresias.checkpoint.store import Store  # here: most runs end without ever asking
    from tiresias.errors import TiresiasError

    store = Store(folder)
    try:
        for step in store.steps():
            try:
                found = store.verify(step, hashes=False)
                if found.size <= FULL_VERIFY:
                    store.verify(step)
                return step
            except TiresiasError as error:
                log_line(str(error))
    except TiresiasError as error:
        log_line(str(error))
    return None


def listed(folder: Path) -> str:
    """What the folder holds, unverified, in words for the log."""
    from tiresias.checkpoint.store import Store
    from tiresias.errors import TiresiasError

    try:
        steps = Store(folder).steps()
    except TiresiasError as error:
        return str(error)
    return f"the newest checkpoint is of step {steps[0]}" if steps else "there is no checkpoint"
