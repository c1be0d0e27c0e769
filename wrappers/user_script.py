"""The user's script inside the batch script that tsbatch made: where it begins, and how to start it by its own interpreter."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol.batch_script_statements import INSERTED, MARKER

NAME = "slurm_script"  # what Slurm itself calls a batch script on the node


class UserScript(NamedTuple):
    """The user's script, extracted from the batch script.

    Attributes:
        folder: Private and temporary, holds nothing else.
        command: The command that starts it, without the script's arguments.
        kind: The script's hash.
        lock: The descriptor of the folder, which is locked until the process ends; -1: the file system has no locks.
    """

    folder: Path
    command: list[str]
    kind: str = ""
    lock: int = -1

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / NAME

    def remove(self) -> None:
        """Remove the extracted script."""
        self.path.unlink(missing_ok=True)
        self.folder.rmdir()
        if self.lock >= 0:
            os.close(self.lock)


def extract(batch_script: Path, parent: Path) -> UserScript:
    """Write the user's script to a private file in a new folder of `parent`; remove those of killed processes of this user.

    Raises:
        OSError: The script cannot be written.
        ValueError: tsbatch did not make the batch script.
    """
    from tiresias.protocol.job_kind import script_hash  # here: tsbatch imports this module and needs no hash

    text = own(batch_script.read_bytes())
    if not text:
        raise ValueError(f"{batch_script} was not made by tsbatch")
    remove_leftovers(parent)
    folder = parent / f"{_own_prefix()}{os.getpid()}-{os.urandom(6).hex()}"
    folder.mkdir(mode=0o700)
    lock = _locked(folder)
    path = folder / NAME
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
    with os.fdopen(file, "wb") as stream:
        stream.write(text)
    return UserScript(folder, [*interpreter(text), str(path)], script_hash(text), lock)


def remove_leftovers(parent: Path) -> None:
    """Remove the scripts that killed processes of this user and this host have left in `parent`. No error is raised.

    A folder stays that belongs to another user, is a symbolic link, is locked, or whose process exists. The number of the process
    counts on this host only: `parent` may be on a shared file system.
    """
    name = re.compile(re.escape(_own_prefix()) + r"(\d+)-[0-9a-f]{12}", re.ASCII)
    with suppress(OSError):
        for folder in parent.iterdir():
            match = name.fullmatch(folder.name)
            if match and not _exists(int(match[1])):
                _remove_leftover(folder)


def _own_prefix() -> str:
    return f"tiresias-{os.uname().nodename.replace('/', '_')}-"


def _exists(pid: int) -> bool:
    """Return whether this user has a process of that number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        return False
    return True


def _locked(folder: Path) -> int:
    """Return a descriptor that locks the folder until this process ends, also for processes of another PID namespace; -1: none."""
    import fcntl  # here: tsbatch imports this module and needs no locks

    lock = -1
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def _remove_leftover(folder: Path) -> None:
    import fcntl

    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(opened).st_uid == os.geteuid():
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    os.unlink(NAME, dir_fd=opened)
                folder.rmdir()
        finally:
            os.close(opened)


def own(batch_script: bytes) -> bytes:
    """The user's script in a batch script of tsbatch, b"" where it is none. The first of the two markers counts."""
    first, _, rest = batch_script.partition(b"\n")
    above, marker, below = rest.partition(INSERTED)
    if marker and MARKER not in above:
        return first + b"\n" + below
    return batch_script.partition(MARKER)[2]


def interpreter(text: bytes) -> list[str]:
    """The words of the `#!` line as the kernel splits them (execve(2)): the interpreter and at most one argument.

    It is started by name because a node's temporary folder may be mounted noexec.
    """
    line = text.partition(b"\n")[0]
    if not line.startswith(b"#!"):
        raise ValueError("the script does not start with #!")
    words = [os.fsdecode(word) for word in line[2:].strip(b" \t\r").split(None, 1)]
    if not words:
        raise ValueError("the script's #! line names no interpreter")
    return words
