"""The folders of a job on the shared file system: made, or found again, and told from those that an older job of its id left.

Slurm gives job ids again. Whose a folder is says its submission.json, by the number that tsbatch gave to the submission:
in each folder its own, for either may be away when the other is not. Without it the restart count tells, though neither of a
first run that was ended before it came here, nor of a requeue that slurmctld has forgotten. What is not ours is moved aside,
never removed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control
from tiresias.protocol.files import own_folder
from tiresias.protocol.job_log import log_line


class Owner(NamedTuple):
    """job: its id, as squeue's %i prints it. submission: "" where nothing numbered it. restart: Slurm's count of this run."""

    job: str
    submission: str
    restart: int


def control_folder(root: str, owner: Owner) -> Path | None:
    """None where it cannot be had, with a line in the log that says what follows."""
    try:
        folder = control.job_folder(_root(root), os.getuid(), owner.job)
        _set_aside_what_is_older(folder, owner)
        control.make(folder, owner.submission)
        return folder
    except OSError as error:
        log_line(
            f"no control folder in {root or 'TIRESIAS_CONTROL_ROOT'}: {error.strerror or error}; this job will not be preempted"
        )
        return None


def checkpoint_folder(root: str, owner: Owner) -> Path | None:
    """None where it cannot be had, with a line in the log that says what follows."""
    try:
        folder = _unless_foreign(_root(root) / owner.job)
        _set_aside_what_is_older(folder, owner)
        own_folder(folder, 0o700)
        control.mark(folder, owner.submission)
        return folder
    except OSError as error:
        log_line(
            f"no checkpoint folder in {root or 'TIRESIAS_CHECKPOINT_ROOT'}: {error.strerror or error}; programs use their own"
        )
        return None


def _set_aside_what_is_older(folder: Path, owner: Owner) -> None:
    noted = control.submission_of(folder)
    if noted != owner.submission if noted and owner.submission else not owner.restart:
        _set_aside(folder)


def _set_aside(folder: Path) -> None:
    if not folder.exists():
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    log_line(f"{folder} was left by an older job with this id; it is now {aside.name}")


def _unless_foreign(folder: Path) -> Path:
    """Another name beside it where `folder` is somebody else's: an older job had this id, and the root is everybody's."""
    other = folder.with_name(f"{folder.name}-{os.getuid()}")
    return other if _owner(folder) not in (None, os.getuid()) or _owner(other) == os.getuid() else folder


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def _root(text: str) -> Path:
    root = Path(text)
    if not root.is_absolute():
        raise OSError("not an absolute path")
    root.mkdir(parents=True, exist_ok=True)
    return root
