"""A file in the run folder by which slurmctld's own hooks wake the daemon: they append a byte, and never wait.

The daemon's group may write it: the daemon needs slurmctld's group for the hooks to work.
"""

from __future__ import annotations

import os
from pathlib import Path

from tiresias.errors import TiresiasError

MOST = 4096  # bytes that are read


class Notifier:
    """One such file.

    Args:
        path: of the file

    Raises:
        TiresiasError: the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o660)
        except OSError as error:
            raise TiresiasError(f"cannot make {path}: {error.strerror}: check that paths.run is writable") from None
        os.fchmod(self._file, 0o660)  # whatever the umask

    def was_notified(self) -> bool:
        """Return whether a byte was appended since the last call."""
        return bool(self.take())

    def take(self) -> bytes:
        """Return what was appended since the last call, the first MOST bytes of it."""
        content = os.pread(self._file, MOST, 0)
        if content:
            os.ftruncate(self._file, 0)
        return content

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
