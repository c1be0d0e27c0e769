"""The activity of a slab: an exponentially weighted moving average of its page requests, with periods of one second."""

from __future__ import annotations

ALPHA = 0.2
PERIOD_S = 1.0


class SlabActivity:
    """A(s) = alpha * measured + (1 - alpha) * A(s) of the period before (thesis, section 2.4.1).

    Times are seconds of any monotonic clock. The value changes at the end of a period only.

    Args:
        now: When the first period starts.
        alpha: The weight of the newest period.
    """

    __slots__ = ("_alpha", "_counted", "_since", "_value")

    def __init__(self, now: float, alpha: float = ALPHA) -> None:
        self._alpha, self._since = alpha, now
        self._value = 0.0
        self._counted = 0

    def record(self, requests: int, now: float) -> None:
        """Count page requests."""
        self._close_periods(now)
        self._counted += requests

    def at(self, now: float) -> float:
        """Return the page requests per second."""
        self._close_periods(now)
        return self._value

    def counts(self, now: float) -> bool:
        """Return whether the current period has requests."""
        self._close_periods(now)
        return self._counted > 0

    def _close_periods(self, now: float) -> None:
        periods = int((now - self._since) / PERIOD_S)
        if periods < 1:
            return
        measured = self._counted / PERIOD_S
        self._value = self._alpha * measured + (1 - self._alpha) * self._value
        self._value *= (1 - self._alpha) ** (periods - 1)
        self._counted = 0
        self._since += periods * PERIOD_S
