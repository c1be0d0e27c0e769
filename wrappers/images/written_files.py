"""Files that a program has open for writing. A restore cuts them to their length at the dump: a later run may have written more.

Files opened only to append, such as a job's log, keep what was appended.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path


def sizes(pids: list[int]) -> dict[str, int]:
    """Return path -> length in bytes of the files that the processes can write at other places than the end."""
    return {path: size for pid in pids for path, size in _open_files(pid)}


def cut(lengths: Mapping[str, int]) -> None:
    """Cut longer files; what is missing or shorter is left for the restore to refuse. Raises OSError."""
    for path, length in lengths.items():
        with suppress(FileNotFoundError):
            file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                found = os.fstat(file)
                if stat.S_ISREG(found.st_mode) and found.st_size > length >= 0:
                    os.ftruncate(file, length)
            finally:
                os.close(file)


def _open_files(pid: int) -> Iterator[tuple[str, int]]:
    for entry in _entries(pid):
        with suppress(OSError, ValueError, IndexError):
            found = entry.stat()
            text = (entry.parents[1] / "fdinfo" / entry.name).read_text(encoding="ascii", errors="replace")
            flags = int(text.partition("flags:")[2].split()[0], 8)
            appends = flags & os.O_APPEND and flags & os.O_ACCMODE == os.O_WRONLY
            if stat.S_ISREG(found.st_mode) and found.st_nlink and flags & os.O_ACCMODE != os.O_RDONLY and not appends:
                yield str(entry.readlink()), found.st_size


def _entries(pid: int) -> list[Path]:
    with suppress(OSError):
        return list(Path(f"/proc/{pid}/fd").iterdir())
    return []
