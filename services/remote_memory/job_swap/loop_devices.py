"""Loop devices of this program: attached to a file of a FUSE connection, recognized by the name in the kernel's own record.

The name is `tiresias-job-swap/JOB`, whatever mount namespace reads it. Devices with another name are never touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "tiresias-job-swap/"
BLOCK_BYTES = 4096
CONTROL = "/dev/loop-control"
_SET_FD, _CLR_FD, _GET_STATUS64, _CONFIGURE, _GET_FREE = 0x4C00, 0x4C01, 0x4C05, 0x4C0A, 0x4C82
_INFO = struct.Struct("<5Q4I64s64s32s2Q")  # struct loop_info64
_CONFIG = struct.Struct(f"<II{_INFO.size}s64x")
_DIRECT_IO = 16
_ATTEMPTS = 64  # another process may take the free device first


class LoopDevice(NamedTuple):
    """A loop device of this program.

    Attributes:
        path: Its name below /dev.
        job: The job.
        connection: The number of the FUSE connection that serves its file, as in /sys/fs/fuse/connections.
    """

    path: str
    job: str
    connection: int


def attach(file: int, job: str) -> str:
    """Attach an open file to a free loop device with direct I/O, and return its path.

    Raises:
        OSError: There is no free device, or no right to it.
    """
    for _ in range(_ATTEMPTS):
        path = f"/dev/loop{_free_number()}"
        _create_node(path)
        with _opened(path, os.O_RDWR) as device:
            try:
                fcntl.ioctl(device.number, _CONFIGURE, _configuration(file, job))
            except OSError as error:
                if error.errno == errno.EBUSY:
                    continue
                raise
            return path
    raise OSError(errno.EBUSY, "no loop device is free", CONTROL)


def detach_device(path: str, job: str) -> None:
    """Detach a device of this job; one that is not its device is left as it is."""
    with suppress(FileNotFoundError), _opened(path, os.O_RDONLY) as device:
        found = _status(device.number)
        if found and found[0] == job:
            with suppress(OSError):
                fcntl.ioctl(device.number, _CLR_FD)


def own_devices() -> Iterator[LoopDevice]:
    """Yield the devices of this program, of all jobs."""
    for folder in sorted(Path("/sys/block").glob("loop*")):
        if not (folder / "loop").is_dir():  # not attached
            continue
        path = f"/dev/{folder.name}"
        with suppress(OSError):
            _create_node(path)
            with _opened(path, os.O_RDONLY) as device:
                found = _status(device.number)
            if found:
                yield LoopDevice(path, *found)


class _opened:  # noqa: N801 - a context manager in the form of a function
    def __init__(self, path: str, mode: int) -> None:
        self.number = os.open(path, mode | os.O_CLOEXEC)

    def __enter__(self) -> _opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


def _free_number() -> int:
    with _opened(CONTROL, os.O_RDWR) as control:
        return fcntl.ioctl(control.number, _GET_FREE)


def _create_node(path: str) -> None:
    """Create the device's node where no devtmpfs does it."""
    if not Path(path).exists():
        number = (Path("/sys/block") / Path(path).name / "dev").read_text().strip().split(":")
        os.mknod(path, 0o600 | 0o060000, os.makedev(*map(int, number)))


def _configuration(file: int, job: str) -> bytes:
    name = f"{MARK}{job}".encode()[:63]
    info = _INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, _DIRECT_IO, name, b"", b"", 0, 0)
    return _CONFIG.pack(file, BLOCK_BYTES, info)


def _status(device: int) -> tuple[str, int] | None:
    """Return the job and the FUSE connection of a device; None if it is not of this program."""
    try:
        fields = _INFO.unpack(fcntl.ioctl(device, _GET_STATUS64, bytes(_INFO.size)))
    except OSError:
        return None
    name = fields[9].rstrip(b"\0").decode(errors="replace")
    return (name.removeprefix(MARK), _kernel_device(fields[0])) if name.startswith(MARK) else None


def _kernel_device(encoded: int) -> int:
    """Return the whole number of a device as the kernel has it (major << 20 | minor), from its encoding for programs."""
    return os.major(encoded) << 20 | os.minor(encoded)
