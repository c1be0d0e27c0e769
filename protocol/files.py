"""Opening folders and files that may not be what they seem: never through a link, never a FIFO or a device, never too large,
never another user's; and putting files in place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR, ELOOP, ENOENT, ENOTDIR, ENXIO
from pathlib import Path

from tiresias.errors import CorruptCheckpoint

_NOT_A_FILE = (ENOENT, ELOOP, ENXIO, ENOTDIR, EISDIR)  # damage; any other error means that the disk cannot be read now


@contextmanager
def open_folder(path: Path | str, parent: int | None = None, of_anyone: bool = False) -> Iterator[int]:
    """A descriptor of the folder itself; `path` is below the open folder `parent` where that is given, and, unless it may be
    `of_anyone`, of the same owner.

    Raises CorruptCheckpoint where there is none, else OSError.
    """
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise CorruptCheckpoint("not a folder") from None
        raise
    try:
        if parent is not None and not of_anyone:
            _refuse_foreign("it", parent, os.fstat(folder))
        yield folder
    finally:
        os.close(folder)


@contextmanager
def open_regular(folder: int, name: str) -> Iterator[int]:
    """A descriptor of the regular file `name` in an open folder, of its owner's. Raises CorruptCheckpoint or OSError."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise CorruptCheckpoint(f"{name}: {os.strerror(error.errno)}") from None
        raise
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise CorruptCheckpoint(f"{name}: not a regular file")
        _refuse_foreign(name, folder, found)
        yield file
    finally:
        os.close(file)


def _refuse_foreign(name: str, folder: int, found: os.stat_result) -> None:
    owner = os.fstat(folder).st_uid
    if found.st_uid != owner:
        raise CorruptCheckpoint(f"{name} belongs to user {found.st_uid}, its folder to user {owner}")


def own_folder(path: Path, mode: int, uid: int | None = None) -> None:
    """Create `path`, or accept it when it is this user's own folder and no link.

    Args:
        path: The folder.
        mode: Its mode where it is created.
        uid: The user of whom this process has the rights to files; None: its own one.

    Raises:
        OSError: It cannot be created, or is another user's.
    """
    try:
        path.mkdir()
        path.chmod(mode)
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != (os.getuid() if uid is None else uid):
            raise PermissionError(0, f"{path} is not a folder of yours") from None


def read_small(folder: int, name: str, most: int) -> bytes:
    """The whole of a file of at most `most` bytes. Raises CorruptCheckpoint or OSError."""
    with open_regular(folder, name) as file:
        if os.fstat(file).st_size > most:
            raise CorruptCheckpoint(f"{name}: larger than {most} bytes")
        with os.fdopen(os.dup(file), "rb") as stream:
            return stream.read(most)


def create(folder: int, name: str) -> int:
    """A new file in an open folder. What was there is unlinked: it may be another user's link to an important file."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)


def write_new(folder: int, name: str, text: bytes) -> None:
    """Write a file that no reader uses yet, and sync it. The folder itself is not synced. Raises OSError."""
    file = create(folder, name)
    try:
        write_all(file, memoryview(text))
        os.fsync(file)
    finally:
        os.close(file)


def write_synced(folder: int, name: str, text: bytes) -> None:
    """As `write_new`, and put in place by one rename: a reader sees the whole of it or the file before."""
    write_new(folder, f".{name}", text)
    os.rename(f".{name}", name, src_dir_fd=folder, dst_dir_fd=folder)


def write_all(file: int, buffer: memoryview) -> None:
    """Write the whole buffer, with as many calls as needed."""
    while len(buffer):
        buffer = buffer[os.write(file, buffer) :]


def is_there(path: Path) -> bool:
    """Asks the folder, not for the file: network file systems remember for a while that a file was not there. Raises OSError."""
    return any(entry.name == path.name for entry in path.parent.iterdir())


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
