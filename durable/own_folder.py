"""Folders that only the controller may write to: it acts on the files there, and no other user may replace them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tiresias.errors import TiresiasError


def refuse_shared(folder: Path, option: str) -> None:
    """Check that no other user may write to the folder.

    Raises:
        TiresiasError: Another user owns the folder, or every user may write to it.
        OSError: The folder does not exist.
    """
    found = folder.stat()
    if os.geteuid() not in (0, found.st_uid) and found.st_uid:
        problem = f"belongs to user {found.st_uid}"
    elif found.st_mode & stat.S_IWOTH:
        problem = "may be written to by everybody"
    else:
        return
    raise TiresiasError(
        f"{folder} {problem}: make it this user's own (mode 0755 or less), or set {option} to one that is"
    )


def private_file(path: Path) -> None:
    """Create the file where it is missing, and make it unreadable for other users, whatever the umask. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.geteuid() in (0, os.fstat(file).st_uid):
            os.fchmod(file, 0o600)
    finally:
        os.close(file)
