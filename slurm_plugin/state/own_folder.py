"""The folders that the controller alone writes to: it acts on what it finds there, and what it makes there nobody may replace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tiresias.errors import TiresiasError


def refuse_shared(folder: Path, option: str) -> None:
    """Raises TiresiasError where somebody else owns the folder or everybody may write to it; OSError where it is not there."""
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
    """Make sure that it is there and that nobody else reads it, whatever the umask. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.geteuid() in (0, os.fstat(file).st_uid):
            os.fchmod(file, 0o600)
    finally:
        os.close(file)
