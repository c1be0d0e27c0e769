"""Opening folders and files that may not be what they seem: never through a link, never a FIFO or a device, never too large."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR, ELOOP, ENOENT, ENOTDIR, ENXIO
from pathlib import Path

from tiresias.checkpoint.manifest import CorruptCheckpoint

_NOT_A_FILE = (ENOENT, ELOOP, ENXIO, ENOTDIR, EISDIR)  # damage; any other error says that the disk cannot be asked now


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """A descriptor of the folder itself. Raises CorruptCheckpoint where there is none, else OSError."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise CorruptCheckpoint("not a folder") from None
        raise
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def open_regular(folder: int, name: str) -> Iterator[int]:
    """A descriptor of the regular file `name` in an open folder. Raises CorruptCheckpoint where there is none, else OSError."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise CorruptCheckpoint(f"{name}: {os.strerror(error.errno)}") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise CorruptCheckpoint(f"{name}: not a regular file")
        yield file
    finally:
        os.close(file)


def read_small(folder: int, name: str, most: int) -> bytes:
    """The whole of a file of at most `most` bytes. Raises CorruptCheckpoint or OSError."""
    with open_regular(folder, name) as file:
        if os.fstat(file).st_size > most:
            raise CorruptCheckpoint(f"{name}: larger than {most} bytes")
        with os.fdopen(os.dup(file), "rb") as stream:
            return stream.read(most)


def sync_folder(path: Path) -> None:
    with open_folder(path) as folder:
        os.fsync(folder)


def remove_flat(path: Path) -> None:
    """Remove a folder of files, or one file; links are removed, not followed. What cannot be removed stays."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            for entry in os.scandir(path):
                with suppress(OSError):
                    Path(entry.path).unlink()
            path.rmdir()
        else:
            path.unlink()
