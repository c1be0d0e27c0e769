"""A user namespace of one's own, with its processes, mounts and capabilities: what CRIU needs, without a privilege on the node.

Within it the user keeps its ids and its rights to files. Its processes are numbered anew: no other process has the number of one
that is restored. See user_namespaces(7), pid_namespaces(7) and capabilities(7).
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

CHECKPOINT_RESTORE, SETPCAP = 40, 8  # CAP_CHECKPOINT_RESTORE, CAP_SETPCAP
_NEWNS, _NEWUSER, _NEWPID = 0x00020000, 0x10000000, 0x20000000
_PRIVATE, _NO_SUID_DEV_EXEC = 0x44000, 0xE  # MS_REC | MS_PRIVATE, MS_NOSUID | MS_NODEV | MS_NOEXEC
_PDEATHSIG, _CHILD_SUBREAPER, _CAP_AMBIENT = 1, 36, 47  # of prctl(2)
_AMBIENT_RAISE, _CAPBSET_DROP = 2, 24
_CAPABILITY_VERSION = 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)


def enter_new() -> None:
    """Enter new namespaces of users, processes and mounts; the next child is the first process there. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    _call(_LIBC.unshare(_NEWUSER | _NEWPID | _NEWNS))
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def enter_of(pid: int) -> None:
    """Enter the namespaces of a process, with the next child; the working folder becomes `/`. Raises OSError."""
    kinds = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("user", "pid", "mnt")]
    for each in kinds:
        _call(_LIBC.setns(each, 0))
        os.close(each)


def mount_proc() -> None:
    """Show the processes of the namespace in /proc. Raises OSError."""
    _call(_LIBC.mount(b"none", b"/", None, _PRIVATE, None))
    _call(_LIBC.mount(b"proc", b"/proc", b"proc", _NO_SUID_DEV_EXEC, None))


def end_with_parent(signal_number: int) -> None:
    """Get a signal when the parent ends. Raises OSError."""
    _call(_LIBC.prctl(_PDEATHSIG, signal_number, 0, 0, 0))


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends. Raises OSError."""
    _call(_LIBC.prctl(_CHILD_SUBREAPER, 1, 0, 0, 0))


def limit_root(*numbers: int) -> None:
    """Where the user is root, take all capabilities but these from what exec gives. Raises OSError."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="ascii"))
    for number in set(range(last + 1)) - set(numbers) if not os.getuid() else ():
        _call(_LIBC.prctl(_CAPBSET_DROP, number, 0, 0, 0))


def keep(*numbers: int) -> None:
    """Keep these capabilities of the namespace across exec, and no others. Raises OSError."""
    head = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    kept = sum(1 << number for number in numbers)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    sets = ctypes.create_string_buffer(struct.pack("=6I", low, low, low, high, high, high), 24)
    _call(_LIBC.capset(head, sets))
    for number in numbers:
        _call(_LIBC.prctl(_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0))


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
