"""The files of a job on its node that its owner alone reads: <run>/jobs/JOB/, for the job's time.

The folders belong to root, so that no user adds a name or replaces a file. A file belongs to the job's owner and has mode 0600.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol.remote_memory_use import folder_of

_MOST_BYTES = 65536
_OPEN = 0o711  # names can be opened and not listed


class FileOwner(NamedTuple):
    """The owner of a job: user and group."""

    uid: int
    gid: int


def owner_of(environment: Mapping[str, str]) -> FileOwner:
    """Return the owner of the job of a prolog; this user where Slurm names none."""
    user, group = environment.get("SLURM_JOB_UID", ""), environment.get("SLURM_JOB_GID", "")
    uid = int(user) if user.isdecimal() else os.geteuid()
    if group.isdecimal():
        return FileOwner(uid, int(group))
    try:
        return FileOwner(uid, pwd.getpwuid(uid).pw_gid)
    except KeyError:
        return FileOwner(uid, uid)


def make_run_folder(run: Path) -> None:
    """Create the folder of the node's own files. Raises OSError."""
    run.mkdir(mode=_OPEN, parents=True, exist_ok=True)
    run.chmod(_OPEN)  # whatever the umask


class OwnerFiles:
    """The files of one job.

    Args:
        run: Folder of the node's own files.
        job: The job's id.
        owner: Its owner.
    """

    def __init__(self, run: Path, job: str, owner: FileOwner) -> None:
        self.folder, self._run, self._owner = folder_of(run, job), run, owner

    def put(self, name: str, text: str) -> None:
        """Put a file in place, in one rename. Raises OSError."""
        make_run_folder(self._run)
        for each in (self.folder.parent, self.folder):
            each.mkdir(exist_ok=True)
            each.chmod(_OPEN)
        new = self.folder / f".{name}"
        new.unlink(missing_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
            os.fchown(handle, *self._owner)
        new.rename(self.folder / name)

    def text(self, name: str) -> str:
        """Return the content of a file; "" where there is none, or it is no file of this process."""
        try:
            handle = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, errors="replace") as file:
                return file.read(_MOST_BYTES)
        except OSError:
            return ""

    def remove(self) -> None:
        """Remove them all; without effect where there are none."""
        shutil.rmtree(self.folder, ignore_errors=True)
