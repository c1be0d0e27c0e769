"""On a node: ends the recording there, and brings what was recorded to the job's control folder, on the shared file system."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tiresias.profiler.recordings.recording import BadRecording, used_bytes
from tiresias.protocol.job_log import log_line

STOP = "stop"
NODE_BYTES = 64 << 20  # brought from one node, at most
OLD = 86400.0  # seconds; what is left of a trial whose job was killed is removed by a later one


def fold(local: Path, target: Path) -> None:
    """What stays on the node is an empty folder with the stop file in it: programs that start later do not record."""
    if not _is_own(local):
        return
    (local / STOP).touch()
    budget = NODE_BYTES
    for file in sorted(local.glob("*.net")):
        with suppress(FileNotFoundError):  # several nodes may share a folder, as in the sandbox
            budget -= _bring(file, target, budget)
            file.unlink()
    _sweep(local)


def _bring(file: Path, target: Path, budget: int) -> int:
    try:
        size = used_bytes(file, os.getuid())
    except BadRecording:
        return 0
    if size > budget:
        return 0
    temporary = target / f".{file.name}.{os.getpid()}"
    with file.open("rb") as source, temporary.open("wb") as copy:
        copy.write(source.read(size))
    temporary.replace(target / file.name)
    return size


def _sweep(local: Path) -> None:
    stem = local.name.rpartition("-")[0]
    for other in local.parent.glob(f"tiresias-profile-{os.getuid()}-*"):
        earlier = other != local and other.name.rpartition("-")[0] == stem
        with suppress(OSError):
            if _is_own(other) and (earlier or time.time() - other.lstat().st_mtime > OLD):
                shutil.rmtree(other)


def _is_own(folder: Path) -> bool:
    """/tmp is shared by all users."""
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False


def recordings(folder: Path) -> Iterator[Path]:
    """Yield the recordings in a folder of this user."""
    if _is_own(folder):
        yield from sorted(folder.glob("*.net"))


def main() -> int:
    """`fold LOCAL TARGET`, one a node."""
    try:
        fold(Path(sys.argv[1]), Path(sys.argv[2]))
    except OSError as error:
        log_line(f"what was recorded on {os.uname().nodename} is lost: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
