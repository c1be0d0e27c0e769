"""The processes of a program on this node: what they execute, map and hold open."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GPU = "/dev/nvidia"
_HEAD = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ (....) \S+ \S+ \S+ *(.*)$")


def executables(pids: list[int]) -> set[str]:
    """Return the paths of what the processes execute."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            found.add(str(Path(f"/proc/{pid}/exe").readlink()))
    return found


def libraries(pids: list[int]) -> set[str]:
    """Return the paths of the libraries that the processes have mapped."""
    found = set()
    for pid in pids:
        for mode, path, _ in _mappings(pid):
            if b"x" in mode and path.startswith(b"/"):
                found.add(os.fsdecode(path))
    return found - executables(pids)


def stopped(pids: list[int]) -> int:
    """Return a process that is stopped by a signal, 0 without one."""
    for pid in pids:
        with suppress(OSError, IndexError):
            if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T":
                return pid
    return 0


def image_bytes(pids: list[int]) -> int:
    """Return about how large an image of the processes is: mapped files in full, other memory as far as it is used."""
    return sum(size for pid in pids for mode, path, size in _mappings(pid) if mode != b"---p")


def gpu_device(pids: list[int]) -> str:
    """Return a GPU's device that a process holds open, "" without one."""
    return next(filter(None, map(_gpu_device, pids)), "")


def gpu_users(pids: list[int]) -> list[int]:
    """Return the processes that hold a GPU's device open."""
    return [pid for pid in pids if _gpu_device(pid)]


def _gpu_device(pid: int) -> str:
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if (target := str(entry.readlink())).startswith(_GPU):
                    return target
    return ""


def _mappings(pid: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Mode, path, and bytes that an image of the mapping takes."""
    with suppress(OSError):
        mode = path = b""
        size = used = 0
        for line in [*Path(f"/proc/{pid}/smaps").read_bytes().splitlines(), b"0-0 ---p 0 0 0"]:
            if head := _HEAD.match(line):
                if mode:
                    yield mode, path, size if path.startswith(b"/") else used
                mode, path = head[1], head[2]
            elif line.startswith(b"Size:"):
                size = int(line.split()[1]) << 10
            elif line.startswith(b"Rss:"):
                used = int(line.split()[1]) << 10
