"""Checkpoints that a restore has set aside: renamed, so that no later restore tries them, and kept for a while."""

from __future__ import annotations

import re
from errno import EACCES, EPERM, EROFS, EXDEV

from tiresias.checkpoint.root import Root
from tiresias.protocol.job_log import log_line

DAMAGED, FAILED = "damaged", "failed"  # does not verify; its restores never came to their next save
_NAME = re.compile(rf"(?:{DAMAGED}|{FAILED})-step-([0-9]{{1,18}})(?:\.[0-9]+)?", re.ASCII)
_FIXED = (EROFS, EACCES, EPERM, EXDEV)  # the caller may read it and not move it


def names(folder: Root) -> list[str]:
    """Return the names of what was set aside, oldest step first. Raises Unavailable."""
    found = ((int(match[1]), name) for name in folder.names() if (match := _NAME.fullmatch(name)))
    return [name for _, name in sorted(found)]


def set_aside(folder: Root, step: int, kind: str, why: str, must: bool = False) -> None:
    """Rename the checkpoint of `step`, and log why.

    Args:
        folder: The folder of the store.
        step: The checkpoint.
        kind: DAMAGED or FAILED.
        why: The reason, for the log.
        must: Raise where the caller may not move it; otherwise it then stays in place.

    Raises:
        Unavailable: It cannot be renamed.
    """
    target = folder.path / f"{kind}-step-{step}"
    number = 0
    while target.exists():
        number += 1
        target = folder.path / f"{kind}-step-{step}.{number}"
    try:
        (folder.path / f"step-{step}").rename(target)
    except OSError as error:
        if must or error.errno not in _FIXED:
            raise folder.unavailable(error) from None
        log_line(f"checkpoint of step {step} is skipped and stays in place ({error.strerror}): {why}")
        return
    log_line(f"checkpoint of step {step} is set aside as {target.name}: {why}")
