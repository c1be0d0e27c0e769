"""Page faults of a range of memory, resolved by another process: userfaultfd(2) and ioctl_userfaultfd(2) of Linux."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from tiresias.errors import Unavailable

_API, _FEATURES = (
    0xAA,
    (1 << 0) | (1 << 5) | (1 << 12),
)  # write protection, missing pages and write protection of shared memory
_UFFDIO_API, _UFFDIO_REGISTER, _UFFDIO_WAKE = 0xC018AA3F, 0xC020AA00, 0x8010AA02
_UFFDIO_COPY, _UFFDIO_ZEROPAGE, _UFFDIO_WRITEPROTECT, _IOC_NEW = 0xC028AA03, 0xC020AA04, 0xC018AA06, 0xAA00
_MISSING_AND_WP, _COPY_PROTECTED, _PROTECT = 3, 2, 1
_EVENT_PAGEFAULT, _WRITE, _WRITE_PROTECTED = 0x12, 1, 2
_MESSAGE = struct.Struct("=BBHIQQII")
_USER_MODE_ONLY = 1
_SYSCALL = {"x86_64": 323, "aarch64": 282}
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_PUNCH_HOLE_KEEP_SIZE = 3


class PageFault(NamedTuple):
    """A thread that waits for a page.

    Attributes:
        address: Where.
        write: Whether it writes.
    """

    address: int
    write: bool


def open_userfault() -> int:
    """Return a descriptor for faults of this process.

    Raises:
        Unavailable: The kernel has none, or this user may not use it; one line with the cure.
    """
    flags, number = os.O_CLOEXEC | os.O_NONBLOCK, _SYSCALL.get(os.uname().machine)
    if number is None:
        raise Unavailable(f"userfaultfd: not supported on {os.uname().machine}")
    descriptor = _privileged(number, flags)
    if descriptor == -1 and ctypes.get_errno() == errno.EPERM:
        descriptor = _LIBC.syscall(number, flags | _USER_MODE_ONLY)
    if descriptor == -1:
        reason = os.strerror(ctypes.get_errno())
        raise Unavailable(
            f"userfaultfd: {reason}: let users read /dev/userfaultfd, or set vm.unprivileged_userfaultfd=1"
        )
    try:
        fcntl.ioctl(descriptor, _UFFDIO_API, struct.pack("=QQQ", _API, _FEATURES, 0))
    except OSError as error:
        os.close(descriptor)
        raise Unavailable(
            "userfaultfd: this kernel does not protect pages of shared memory; Linux 5.19 does"
        ) from error
    return int(descriptor)


def reaches_system_calls() -> bool:
    """Return whether system calls of this user wait for pages; else they fail with EFAULT where a page is not resident."""
    descriptor = _privileged(_SYSCALL.get(os.uname().machine, -1), os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor != -1:
        os.close(descriptor)
    return descriptor != -1


def _privileged(number: int, flags: int) -> int:
    """Return a descriptor whose faults of system calls are reported too, or -1."""
    try:
        device = os.open("/dev/userfaultfd", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return int(_LIBC.syscall(number, flags))
    try:
        return int(fcntl.ioctl(device, _IOC_NEW, flags))
    finally:
        os.close(device)


def register(userfault: int, address: int, size: int) -> None:
    """Have missing and write-protected pages of a range reported."""
    fcntl.ioctl(userfault, _UFFDIO_REGISTER, struct.pack("=QQQQ", address, size, _MISSING_AND_WP, 0))


def read_faults(userfault: int) -> Iterator[PageFault]:
    """Yield the faults that wait, at most 64 of them."""
    try:
        data = os.read(userfault, 64 * _MESSAGE.size)
    except BlockingIOError:
        return
    for event, _, _, _, flags, address, _, _ in _MESSAGE.iter_unpack(data):
        if event == _EVENT_PAGEFAULT:
            yield PageFault(address, bool(flags & (_WRITE | _WRITE_PROTECTED)))


def copy_in(userfault: int, address: int, source: int, size: int, protected: bool) -> bool:
    """Put pages in place and wake the threads that wait; return False where a page is there already.

    Raises:
        OSError: The kernel has no memory, or the program has ended.
    """
    request = struct.pack("=QQQQq", address, source, size, _COPY_PROTECTED if protected else 0, 0)
    try:
        fcntl.ioctl(userfault, _UFFDIO_COPY, request)
    except FileExistsError:
        return False
    except FileNotFoundError:
        first = _first_half(size)
        return copy_in(userfault, address, source, first, protected) and copy_in(
            userfault, address + first, source + first, size - first, protected
        )
    return True


def _first_half(size: int) -> int:
    """Return the first half of pages that are not in one mapping: the kernel accepts no others. Raises for one page."""
    if size <= mmap.PAGESIZE:
        raise FileNotFoundError(errno.ENOENT, "a page of a region is not mapped any more")
    return size // mmap.PAGESIZE // 2 * mmap.PAGESIZE


def zero_in(userfault: int, address: int, size: int) -> bool:
    """Put zero pages in place that may be written, and wake the threads that wait; return False where a page is there already.

    Raises:
        OSError: The kernel has no memory, or the program has ended.
    """
    try:
        fcntl.ioctl(userfault, _UFFDIO_ZEROPAGE, struct.pack("=QQQq", address, size, 0, 0))
    except FileExistsError:
        return False
    except FileNotFoundError:
        first = _first_half(size)
        return zero_in(userfault, address, first) and zero_in(userfault, address + first, size - first)
    return True


def wake(userfault: int, address: int, size: int) -> None:
    """Let threads that wait for pages try again."""
    fcntl.ioctl(userfault, _UFFDIO_WAKE, struct.pack("=QQ", address, size))


def protect(userfault: int, address: int, size: int, on: bool) -> None:
    """Protect pages against writes, or allow them and wake the threads that wait."""
    try:
        fcntl.ioctl(userfault, _UFFDIO_WRITEPROTECT, struct.pack("=QQQ", address, size, _PROTECT if on else 0))
    except FileNotFoundError:
        first = _first_half(size)
        protect(userfault, address, first, on)
        protect(userfault, address + first, size - first, on)


def punch_hole(memory: int, offset: int, size: int) -> None:
    """Remove pages of a memory file: they are missing in every mapping.

    Raises:
        OSError: That failed.
    """
    if _LIBC.fallocate(memory, _PUNCH_HOLE_KEEP_SIZE, offset, size) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
