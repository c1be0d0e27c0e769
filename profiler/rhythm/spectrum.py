"""AUTOPERIOD (Vlachos, Yu and Castelli, 2005): the spectrum proposes periods, the autocorrelation confirms them.

Sees only how the load goes up and down, so that it works for messages that are all alike; it is weaker than the sizes
where they are not, for it takes two halves of an iteration that look alike for two iterations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.profiler.recordings.layout import Floats

BINS = 8192
PEAKS = 10  # of the spectrum that are looked at


class Hill(NamedTuple):
    """A maximum of the autocorrelation."""

    seconds: float
    strength: float  # the autocorrelation there, 0 to 1


def autoperiod(time: Floats, size: Floats) -> Hill | None:
    """Of messages at `time` (seconds) of `size` bytes."""
    span = float(time.max() - time.min()) if len(time) else 0.0
    if len(time) < 6 or span <= 0:
        return None
    load, _ = np.histogram(time, BINS, weights=size)
    power = np.abs(np.fft.rfft(load - load.mean(), 2 * BINS)) ** 2
    correlation = np.fft.irfft(power)[:BINS]
    if correlation[0] <= 0:
        return None
    correlation = correlation / correlation[0] * BINS / (BINS - np.arange(BINS))  # fewer pairs at longer lags
    hills = [hill for lag in _proposed(load) if (hill := _hill(correlation, lag, span / BINS))]
    return max(hills, key=lambda hill: hill.strength, default=None)


def _proposed(load: Floats) -> list[float]:
    """Lags, in bins, of the strongest frequencies with at least three cycles."""
    power = np.abs(np.fft.rfft(load - load.mean())) ** 2
    power[:3] = 0
    return [BINS / int(place) for place in np.argsort(-power)[:PEAKS] if power[place] > 0]


def _hill(correlation: Floats, lag: float, width: float) -> Hill | None:
    """The top near `lag`, if there is one."""
    low, high = int(0.8 * lag), min(int(1.2 * lag) + 2, BINS // 2)
    if low < 2 or high - low < 3:
        return None
    top = low + int(correlation[low:high].argmax())
    strength = float(correlation[top])
    if top in (low, high - 1) or strength <= 0:
        return None
    return Hill(top * width, min(strength, 1.0))
