"""Are pieces of so many messages composed alike? Iterations are, in whatever order their messages leave.

An all-reduce repeats each message for each step along its ring, so that its sizes come twelve times where one would do.
Twelfths of an iteration would explain their counts as well; but one of them has only large messages, the next only small.
"""

from __future__ import annotations

import numpy as np

from tiresias.profiler.recordings.layout import Floats, Ints

OFFSETS = 16  # at which the first window may begin
EVEN = 0.998  # no need to look further


class MessageWindows:
    """Of messages of classes `of`, each of which has a `size`. Memory: 4 bytes a message and class."""

    def __init__(self, of: Ints, size: Floats) -> None:
        kinds, of = np.unique(of, return_inverse=True)
        self.size, self.weight = len(of), size[kinds]
        self.before = np.zeros((len(kinds), self.size + 1), np.int32)  # of each kind, before each place
        for kind in range(len(kinds)):
            np.cumsum(of.reshape(-1) == kind, out=self.before[kind, 1:])

    def evenness(self, length: int) -> float:
        """0 to 1: the bytes that windows of `length` have in common with the usual one, of those of either."""
        best = 0.0
        for start in range(0, length, max(length // OFFSETS, 1)):
            if best > EVEN or start + 2 * length > self.size:
                break
            best = max(best, self._evenness(length, start))
        return best

    def _evenness(self, length: int, start: int) -> float:
        counts = np.diff(self.before[:, start::length], axis=1)
        usual = np.median(counts, axis=1, keepdims=True)
        common, either = (self.weight @ each(counts, usual) for each in (np.minimum, np.maximum))
        return float(common.sum() / either.sum())
