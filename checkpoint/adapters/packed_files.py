"""Files that a program or a framework wrote by itself <-> what Checkpointer.save takes. Standard library only.

`pack(folder)` gives {"files": [[path, buffer, mode], ...], "file/0": buffer, ...}; the bytes are read when they are written.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from errno import EAGAIN
from pathlib import Path, PurePosixPath
from typing import Any

from tiresias.errors import CorruptCheckpoint

CHUNK = 4 << 20
FileState = tuple[int, int, int]  # inode, size, nanoseconds of the last change


def inside(folder: Path) -> list[Path]:
    """All regular files in `folder` and below, relative to it, in order; links and folders themselves are left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(folder) for path in found)


def file_states(folder: Path, paths: Iterable[Path]) -> dict[Path, FileState]:
    """Return the state of each file, which differs between two contents; a path that is no file has none."""
    found = {}
    for path in paths:
        with suppress(OSError):
            status = (folder / path).stat()
            found[path] = status.st_ino, status.st_size, status.st_mtime_ns
    return found


def pack(folder: Path, paths: Iterable[Path]) -> dict[str, Any]:
    """Return the files in the form that Checkpointer.save takes.

    Args:
        folder: Their folder.
        paths: Regular files, relative to `folder`.

    Raises:
        OSError: A file cannot be read. The save raises it where a file changes meanwhile.
    """
    before = file_states(folder, paths)
    state: dict[str, Any] = {"files": []}
    for number, path in enumerate(before):
        mode = stat.S_IMODE((folder / path).stat().st_mode)
        state["files"].append([path.as_posix(), f"file/{number}", mode])
        state[f"file/{number}"] = _chunks(folder, path, before)
    return state


def _chunks(folder: Path, path: Path, before: Mapping[Path, FileState]) -> Iterator[bytes]:
    with (folder / path).open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk
    if file_states(folder, before) != before:
        raise OSError(EAGAIN, f"the program wrote to its files while {path} was read")


def unpack(state: Mapping[str, Any], folder: Path) -> None:
    """Write the files below `folder`, each in one rename; others there stay. Raises CorruptCheckpoint or OSError."""
    for name, buffer, mode in state["files"]:
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            raise CorruptCheckpoint(f"{name!r:.60} leads out of the folder")
        _write(folder / relative, state[buffer], mode)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_folder(state: Mapping[str, Any], folder: Path) -> None:
    """`folder` holds these files and no others, or is not there. Raises CorruptCheckpoint or OSError."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        unpack(state, temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
