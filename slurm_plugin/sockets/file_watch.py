"""Wakes a process at once when a file of this host is written, by inotify(7)."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

_MODIFIED = 0x2  # IN_MODIFY: written or truncated
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # the values of IN_NONBLOCK and IN_CLOEXEC
_ENOUGH = 4096  # bytes of events


class FileWatch:
    """A file descriptor that becomes readable when the file changes.

    Raises:
        OSError: the kernel has no inotify, or the user has too many watches.
    """

    def __init__(self, path: Path) -> None:
        libc = _libc()
        self._events = _checked(libc.inotify_init1(_FLAGS))
        try:
            _checked(libc.inotify_add_watch(self._events, os.fsencode(path), _MODIFIED))
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._events

    def clear(self) -> None:
        """Forget the changes up to now."""
        with suppress(BlockingIOError):
            while os.read(self._events, _ENOUGH):
                pass

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._events)


def _libc() -> Any:
    try:
        import ctypes  # here: it fails where the system forbids memory that is writable and executable

        found = ctypes.CDLL(None, use_errno=True)
        found.inotify_init1, found.inotify_add_watch  # noqa: B018 - AttributeError without them
        return found
    except (ImportError, MemoryError, AttributeError) as error:
        raise OSError(errno.ENOSYS, f"inotify cannot be called: {error}") from None


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
