"""For how long each GPU has been unused without a break. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class IdleTimes:
    """The idle times of the GPUs of one job.

    Args:
        below: The use, as of `add`, below which a GPU counts as unused.
    """

    def __init__(self, below: float) -> None:
        self._below = below
        self._since: list[float] = []  # when each GPU was used last; of one that never was, the first sample

    def add(self, now: float, use: Sequence[float]) -> None:
        """Take a sample. use: of each GPU, 0 to 1; with another number of GPUs than before all times begin anew."""
        if len(use) != len(self._since):
            self._since = [now] * len(use)
        self._since = [now if part >= self._below else at for part, at in zip(use, self._since, strict=True)]

    def seconds(self, now: float) -> tuple[float, ...]:
        """Return the seconds for which each GPU has been unused; () before the first sample."""
        return tuple(max(now - at, 0.0) for at in self._since)
