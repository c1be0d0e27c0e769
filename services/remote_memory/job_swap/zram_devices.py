"""Compressed memory of the node as the first rung: a zram device for one job, recognized by the label of its swap area."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.services.remote_memory.job_swap import swap_area

CONTROL = Path("/sys/class/zram-control")


class ZramDevice(NamedTuple):
    """A zram device of this program."""

    path: str
    job: str


def create(size: int, job: str) -> str:
    """Add a device with a swap area of `size` bytes and return its path. It uses `size` bytes of the node's memory at most.

    Raises:
        OSError: The kernel has no zram, or there is no right to it.
    """
    number = int((CONTROL / "hot_add").read_text())
    path = f"/dev/zram{number}"
    try:
        (_folder(path) / "disksize").write_text(str(size))
        _write_header(path, size, job)
    except OSError:
        _remove(path)
        raise
    return path


def remove(path: str, job: str) -> None:
    """Remove a device of this job; one that is not its device is left as it is."""
    if _job_of(path) == job:
        with suppress(OSError):
            _remove(path)


def own_devices() -> Iterator[ZramDevice]:
    """Yield the devices of this program, of all jobs."""
    for folder in sorted(Path("/sys/block").glob("zram*")):
        path = f"/dev/{folder.name}"
        if job := _job_of(path):
            yield ZramDevice(path, job)


def _folder(path: str) -> Path:
    return Path("/sys/block") / Path(path).name


def _write_header(path: str, size: int, job: str) -> None:
    device = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(device, swap_area.header(size, job), 0)
        os.fsync(device)
    finally:
        os.close(device)


def _job_of(path: str) -> str:
    with suppress(OSError, ValueError):
        if int((_folder(path) / "disksize").read_text()):
            with open(path, "rb", buffering=0) as device:  # noqa: PTH123 - unbuffered
                label = swap_area.label_of(device.read(swap_area.PAGE_BYTES))
            return label.removeprefix(swap_area.LABEL) if label.startswith(swap_area.LABEL) else ""
    return ""


def _remove(path: str) -> None:
    (_folder(path) / "reset").write_text("1")
    (CONTROL / "hot_remove").write_text(Path(path).name.removeprefix("zram"))
