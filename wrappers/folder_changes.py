"""Changes of a program's own folder since a point in time: its files are compared before and after, no clock is read."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST_FILES = 200_000  # scanned
STABLE_S, STABLE_TIMEOUT_S = 0.5, 30.0  # what other nodes write arrives late
HF_SENTINEL = "checkpoint-is-incomplete.txt"  # transformers removes it once its checkpoint is whole
DCP_DATA, DCP_METADATA = ".distcp", ".metadata"  # torch.distributed.checkpoint writes the metadata last

FileStates = Mapping[str, tuple[int, int, int]]  # path -> inode, size, modification time


class Changes(NamedTuple):
    """The changed files of a folder.

    Attributes:
        files: Paths of the new or changed files.
        size: Their bytes.
        incomplete: Why they are not a whole checkpoint, "" where nothing shows that.
    """

    files: tuple[str, ...] = ()
    size: int = 0
    incomplete: str = ""

    @property
    def is_save(self) -> bool:
        """Whether the changes count as a checkpoint."""
        return self.size > 0 and not self.incomplete


def file_states(place: Path) -> FileStates:
    """Return the states of the files below `place`: a folder, a file or a pattern of these. Links are not followed."""
    found: dict[str, tuple[int, int, int]] = {}
    for path in _files(place):
        if len(found) == MOST_FILES:
            break
        with suppress(OSError):
            status = path.lstat()
            found[str(path)] = status.st_ino, status.st_size, status.st_mtime_ns
    return found


def since(before: FileStates, place: Path) -> Changes:
    """Return the changes since `before`, once two scans of the files agree, or after STABLE_TIMEOUT_S."""
    deadline, now = time.monotonic() + STABLE_TIMEOUT_S, file_states(place)
    while True:
        time.sleep(STABLE_S)
        last, now = now, file_states(place)
        if last == now:
            return compare(before, now)
        if time.monotonic() > deadline:
            return compare(before, now)._replace(incomplete="files are still being written")


def compare(before: FileStates, now: FileStates) -> Changes:
    """Return the changes between two states. Pure."""
    changed = tuple(sorted(path for path, mark in now.items() if before.get(path) != mark))
    return Changes(changed, sum(now[path][1] for path in changed), _incomplete(changed, now))


def _incomplete(changed: tuple[str, ...], now: FileStates) -> str:
    for path in changed:
        if Path(path).name == HF_SENTINEL:
            return f"{path} is there"
        metadata = str(Path(path).with_name(DCP_METADATA))
        if path.endswith(DCP_DATA) and metadata not in now:
            return f"{metadata} is missing"
    return ""


def _files(place: Path) -> Iterator[Path]:
    for root in glob.glob(str(place)) if glob.has_magic(str(place)) else [str(place)]:  # noqa: PTH207 absolute ones, too
        if not os.path.isdir(root):  # noqa: PTH112
            yield Path(root)
        for parent, _, names in os.walk(root):
            yield from (Path(parent, name) for name in names)
