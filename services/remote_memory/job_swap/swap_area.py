"""The header of a swap area, and what the kernel swaps on."""

from __future__ import annotations

import errno
import os
import struct
import uuid
from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
PRIORITY = 100  # before a swap of the node itself
LABEL = "trsm-"  # the label of an area is this and the job; it has 15 characters
_INFO = struct.Struct("<III16s16s")  # version, last page, bad pages, uuid, label: at byte 1024
_INFO_AT = 1024
_MAGIC = b"SWAPSPACE2"
LEAST_BYTES = 10 * PAGE_BYTES


class SwapUse(NamedTuple):
    """A device that the kernel swaps on; sizes in bytes."""

    path: str
    size: int
    used: int
    priority: int


def header(size: int, job: str) -> bytes:
    """Return the first page of a swap area of `size` bytes: what mkswap writes."""
    page = bytearray(PAGE_BYTES)
    label = f"{LABEL}{job}".encode()[:15]
    _INFO.pack_into(page, _INFO_AT, 1, size // PAGE_BYTES - 1, 0, uuid.uuid4().bytes, label)
    page[-len(_MAGIC) :] = _MAGIC
    return bytes(page)


def label_of(page: bytes) -> str:
    """Return the label in a header, "" where there is none."""
    if len(page) < PAGE_BYTES or page[PAGE_BYTES - len(_MAGIC) : PAGE_BYTES] != _MAGIC:
        return ""
    return str(_INFO.unpack_from(page, _INFO_AT)[4].rstrip(b"\0").decode(errors="replace"))


def parse_swaps(text: str) -> dict[str, SwapUse]:
    """Return the content of /proc/swaps by the devices' paths below /dev; sizes there are KiB.

    The kernel shows the path of a device as /loop0 or / once the process that swapped it on has ended with its mounts; is_claimed()
    works then, too.
    """
    found = {}
    for line in text.splitlines()[1:]:
        name, _, size, used, priority = line.rsplit(None, 4)
        path = f"/dev/{Path(name).name}"
        found[path] = SwapUse(path, int(size) << 10, int(used) << 10, int(priority))
    return found


def swaps() -> dict[str, SwapUse]:
    """Return the devices that the kernel swaps on, by their paths below /dev."""
    return parse_swaps(Path("/proc/swaps").read_text())


def is_claimed(path: str) -> bool:
    """Return whether the kernel swaps on a device, or uses it otherwise for itself alone."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False
