"""System calls without a function in the standard library."""

from __future__ import annotations

import ctypes
import errno
import os

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
_CLONE_NEWNS = 0x00020000
_MNT_DETACH = 2
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_PR_SET_IO_FLUSHER = 57
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_SET_GROUPS = {"x86_64": 116, "aarch64": 159, "ppc64le": 81}  # numbers of the system call, which concerns one thread
_SWAP_FLAG_PREFER, _SWAP_PRIORITY_MASK = 0x8000, 0x7FFF

_LIBC = ctypes.CDLL(None, use_errno=True)


def private_mounts() -> None:
    """Give this process mounts of its own: what it mounts ends with it."""
    _checked(_LIBC.unshare(_CLONE_NEWNS), "unshare")
    _checked(_LIBC.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "mount")


def mount(source: str, target: str, kind: str, options: str) -> None:
    """Mount a file system without programs, devices and set-user-id files."""
    flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _checked(_LIBC.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()), target)


def detach(target: str) -> None:
    """Unmount; what is open stays."""
    _checked(_LIBC.umount2(os.fsencode(target), _MNT_DETACH), target)


def swap_on(device: str, priority: int) -> None:
    """Start to swap on a device; a higher priority is used first."""
    flags = _SWAP_FLAG_PREFER | (priority & _SWAP_PRIORITY_MASK)
    _checked(_LIBC.swapon(os.fsencode(device), flags), device)


def swap_off(device: str) -> None:
    """Read all pages of a device back and stop to swap on it."""
    _checked(_LIBC.swapoff(os.fsencode(device)), device)


def lock_memory() -> None:
    """Keep all present and future pages of this process in memory, and return none: a later allocation could have to wait."""
    _LIBC.mallopt(_M_TRIM_THRESHOLD, -1)
    _LIBC.mallopt(_M_MMAP_MAX, 0)
    _checked(_LIBC.mlockall(_MCL_CURRENT | _MCL_FUTURE), "mlockall")


def set_io_flusher() -> None:
    """Have allocations of this process start no writing of pages that this process must take (PR_SET_IO_FLUSHER, Linux 5.6)."""
    _checked(_LIBC.prctl(_PR_SET_IO_FLUSHER, 1, 0, 0, 0), "PR_SET_IO_FLUSHER")


def act_for_user(uid: int, gid: int) -> None:
    """Have this thread, and no other one, use files with the rights of a user and of no further group.

    The thread stays root's for signals and ptrace.

    Raises:
        OSError: It is not possible.
    """
    number = _SET_GROUPS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"the number of setgroups on {os.uname().machine} is not known")
    _checked(_LIBC.syscall(number, 0, None), "setgroups")
    for change, chosen in ((_LIBC.setfsgid, gid), (_LIBC.setfsuid, uid)):
        change(chosen)
        if change(chosen) != chosen:  # the call returns the value before, and no error
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), "setfsuid")


def inotify(mask: int, *folders: str) -> int:
    """Return a descriptor that becomes readable when something of the folders changes."""
    descriptor: int = _LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    _checked(descriptor, "inotify")
    for folder in folders:
        watch(descriptor, mask, folder)
    return descriptor


def watch(descriptor: int, mask: int, folder: str) -> None:
    """Add a folder to an inotify descriptor."""
    _checked(_LIBC.inotify_add_watch(descriptor, os.fsencode(folder), ctypes.c_uint32(mask)), folder)


def _checked(result: int, name: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
