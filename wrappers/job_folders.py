"""The folders of a job on the shared file system: created, or found again, and separated from those of an older job with its id.

Slurm reuses job ids. The owner of a folder is in its submission.json, as the number that tsbatch gave to the submission; each
folder has its own file, because either may be unavailable alone. Without it the restart count decides, except for a first run
that ended before this point and for a requeue that slurmctld has lost. A folder of another job is renamed, never removed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control, environment
from tiresias.protocol.files import own_folder
from tiresias.protocol.job_log import log_line


class Owner(NamedTuple):
    """The owner of a folder: job id as squeue's %i prints it, submission number ("" without one), Slurm's restart count."""

    job: str
    submission: str
    restart: int


def control_folder(root: str, owner: Owner) -> Path | None:
    """Return the job's folder; None where it is unavailable, and the log states the consequence."""
    try:
        folder = control.job_folder(_root(root), os.getuid(), owner.job)
        _set_aside_what_is_older(folder, owner)
        control.make(folder, owner.submission)
        return folder
    except OSError as error:
        log_line(
            f"no control folder in {root or environment.CONTROL_ROOT}: {error.strerror or error}; this job will not be preempted"
        )
        return None


def checkpoint_folder(root: str, owner: Owner) -> Path | None:
    """Return the job's folder; None where it is unavailable, and the log states the consequence."""
    try:
        folder = _unless_foreign(_root(root) / owner.job)
        _set_aside_what_is_older(folder, owner)
        own_folder(folder, 0o700)
        control.mark(folder, owner.submission)
        return folder
    except OSError as error:
        log_line(
            f"no checkpoint folder in {root or environment.CHECKPOINT_ROOT}: {error.strerror or error}; programs use their own"
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
    """Return another name where `folder` belongs to another user: an older job had this id in a root shared by all users."""
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
