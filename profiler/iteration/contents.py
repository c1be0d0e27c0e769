"""What one iteration sends on a stream: how many messages of each size.

Iterations are cut out from anchor to anchor, those that last too long (an evaluation in between) are left out, and the
median over all iterations gives the count of a size. A size in fewer than half of them (checkpoints, logs) is no part of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.profiler.recordings.layout import Floats, Ints
from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.sequence import Repeat
from tiresias.profiler.rhythm.sizes import Anchor, Classes, alike, anchor_of, counted_anchor

MOST_OTHER = 0.5  # of a stream's bytes; more, and what looked like its iterations was chance
FEWEST = 3  # iterations; what came twice may come twice by chance
WINDOWS = 500  # iterations that are looked at, evenly spread


@dataclass(frozen=True)
class Contents:
    """`sizes` (bytes, largest first) and how many messages of each an iteration sends; empty if nothing returns."""

    sender: int
    receiver: int
    sizes: Floats
    counts: Ints
    iterations: int
    other: float  # bytes of the stream that belong to no iteration

    @property
    def bytes(self) -> float:
        """The bytes of one iteration."""
        return float(self.sizes @ self.counts)

    @property
    def largest(self) -> float:
        """The bytes of the largest message, 0.0 without any."""
        return float(self.sizes[0]) if len(self.sizes) else 0.0


def contents(stream: Stream, classes: Classes, rhythm: Repeat | None, seconds: float) -> Contents:
    """Of a job whose iterations take `seconds`. A stream's own rhythm is exact; without one the clock has to do."""
    anchor = _anchor(stream, classes, rhythm, seconds)
    if anchor is None:
        return _nothing(stream)
    counts = _counts(classes, anchor, *_windows(stream, classes, anchor, seconds))
    kept = np.flatnonzero(counts)[np.argsort(-classes.size[counts > 0])]
    sizes, counts = classes.size[kept], counts[kept]
    iterations = max(round(int(classes.count[anchor.size_class]) / anchor.times), 1)
    other = max(stream.bytes - iterations * float(sizes @ counts), 0.0)
    if other > MOST_OTHER * stream.bytes or iterations < FEWEST:
        return _nothing(stream)
    return Contents(stream.sender, stream.receiver, sizes, counts, iterations, other)


def _anchor(stream: Stream, classes: Classes, rhythm: Repeat | None, seconds: float) -> Anchor | None:
    if rhythm and alike(np.asarray([rhythm.seconds]), seconds)[0]:
        return counted_anchor(stream, classes, rhythm.iterations)
    return anchor_of(stream, classes, seconds)


def _nothing(stream: Stream) -> Contents:
    return Contents(stream.sender, stream.receiver, np.empty(0), np.empty(0, np.int64), 0, float(stream.bytes))


def _counts(classes: Classes, anchor: Anchor, low: Ints, high: Ints) -> Ints:
    """Of each class, in the median window from message `low` to before message `high`."""
    counts = np.zeros(len(classes.count), np.int64)
    for each in np.flatnonzero(classes.count * 2 >= len(low) / anchor.times):
        places = np.flatnonzero(classes.of == each)
        counts[each] = round(float(np.median(np.searchsorted(places, high) - np.searchsorted(places, low))))
    return counts


def _windows(stream: Stream, classes: Classes, anchor: Anchor, seconds: float) -> tuple[Ints, Ints]:
    """First message of each iteration and of the one after it."""
    places = np.flatnonzero(classes.of == anchor.size_class)
    low, high = places[: -anchor.times], places[anchor.times :]
    usual = alike(stream.time[high] - stream.time[low], seconds)
    if usual.any():
        low, high = low[usual], high[usual]
    chosen = np.unique(np.linspace(0, len(low) - 1, WINDOWS).astype(int))
    return low[chosen], high[chosen]
