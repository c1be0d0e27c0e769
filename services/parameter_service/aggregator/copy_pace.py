"""How many tensors leave in one idle window: as many as can be copied in it, by the measured rate of copies."""

from __future__ import annotations

import threading

FIRST_RATE = 200e6  # bytes a second, until a copy was measured
WINDOW_SHARE = 0.7  # of a window that copies may take: its length and the rate vary
_KEPT_SHARE = 0.7  # of the rate before, when a copy is measured


class CopyPace:
    """The copies that are due, and the rate of those that were made. Any thread may call it."""

    def __init__(self) -> None:
        self._rate = FIRST_RATE
        self._due_bytes = 0
        self._lock = threading.Lock()

    def admits(self, count: int, window_s: float) -> bool:
        """Return whether one more copy of `count` bytes fits in a window with those that are due.

        A copy that fits in no window is made alone in one: it delays the job by what exceeds the window.
        """
        with self._lock:
            return not self._due_bytes or self._due_bytes + count <= WINDOW_SHARE * window_s * self._rate

    def due(self, count: int) -> None:
        """Add a copy that is to be made."""
        with self._lock:
            self._due_bytes += count

    def ended(self, count: int, seconds: float | None = None) -> None:
        """Remove a copy; `seconds` is how long it took, None where it failed."""
        with self._lock:
            self._due_bytes = max(self._due_bytes - count, 0)
            if seconds:
                self._rate = _KEPT_SHARE * self._rate + (1 - _KEPT_SHARE) * count / seconds
