"""The folder that holds one job's checkpoints: the caller's own, and the same one for as long as the program runs.

On a shared file system anybody may make a folder where a job will look for its own, and a mount may go away while the program
runs: what lies below it then is another folder of the same name. Neither is ever read from or written to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable


class NotYours(TiresiasError):
    """The folder belongs to another user: nothing is read from it and nothing written to it."""


class Root:
    """The folder of a store, which need not exist yet. A link in its place is followed where the caller made it.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None  # device and inode

    def names(self) -> list[str]:
        """What is in the folder; nothing where it was never made. Always asks the file system. Raises Unavailable."""
        try:
            return [entry.name for entry in self.path.iterdir()]
        except FileNotFoundError:
            if self._seen:
                raise self._gone() from None
            return []
        except OSError as error:
            raise self.unavailable(error) from None

    def make(self) -> None:
        """Make the folder if it was never there, for its owner alone. Raises OSError, Unavailable, NotYours."""
        if not self._seen:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(self.path):
                self.path.mkdir(mode=0o700, exist_ok=True)
        with self.open():
            pass

    @contextmanager
    def open(self) -> Iterator[int]:
        """A descriptor of the folder, which is the caller's own. Raises OSError, Unavailable, NotYours."""
        try:
            self._refuse_foreign(os.lstat(self.path))
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._gone() if self._seen and error.errno == ENOENT else error from None
        try:
            found = os.fstat(folder)
            self._refuse_foreign(found)
            self._refuse_another(found)
            yield folder
        finally:
            os.close(folder)

    def _refuse_foreign(self, found: os.stat_result) -> None:
        if found.st_uid != os.geteuid():
            kind = "link" if stat.S_ISLNK(found.st_mode) else "folder"
            raise NotYours(f"{self.path}: this {kind} belongs to user {found.st_uid}, not to you; name another folder")

    def _refuse_another(self, found: os.stat_result) -> None:
        """After a remount the device's number may differ, or with some file systems the inode's: not both."""
        now = found.st_dev, found.st_ino
        if self._seen and now[0] != self._seen[0] and now[1] != self._seen[1]:
            raise self._gone()
        self._seen = now

    def _gone(self) -> Unavailable:
        return Unavailable(f"{self.path}: not the folder that was here before; look whether its file system is mounted")

    def unavailable(self, error: OSError) -> Unavailable:
        """Return the exception for an error of the file system."""
        return Unavailable(f"checkpoints in {self.path}: {error.strerror or error}; look at the disk and start again")
