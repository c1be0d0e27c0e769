"""Iterations by their pauses: a process that computes sends nothing, and a busy machine lengthens pauses but shortens none.

For streams whose bytes are nearly all in messages of one size, of which one iteration sends several: their sizes do not show
how many, and the spans of a busy machine differ too much for their regularity to show it.
"""

from __future__ import annotations

import numpy as np

from tiresias.profiler.recordings.layout import Floats
from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.sequence import Repeat
from tiresias.profiler.rhythm.sizes import ENOUGH, MULTIPLICITY, Classes, heaviest, usual

SHORTEST = 0.2  # a quantile of the gaps at one place of the iterations: load moves it less than the median
PAUSE = 5.0  # factor by which the gap before an iteration is longer than all gaps within it
SAME = 2.0  # factor by which the shortest gaps before some iterations and before others differ
TOGETHER = 5  # iterations that are checked for being one
FEWEST = 5  # gaps at one place


def paused(stream: Stream, classes: Classes) -> Repeat | None:
    """Return the repeat of the heaviest size; None unless every n-th message follows a pause and no other message does.

    Args:
        stream: All messages from one node to another.
        classes: Their sizes.
    """
    for size_class in heaviest(classes, 1).tolist():
        time = stream.time[classes.of == size_class]
        gaps = np.diff(time)
        for times in range(2, min(MULTIPLICITY, len(gaps) // FEWEST) + 1):
            if score := _score(gaps, times):
                return Repeat("pauses", len(time) / times, usual(time[times:] - time[:-times]), score)
    return None


def _score(gaps: Floats, times: int) -> float:
    """0 to 1; 0 if the pauses are short, take little of the time, or are of several kinds."""
    shortest = _shortest(gaps, times)
    place = int(shortest.argmax())
    pause, within = float(shortest[place]), float(np.delete(shortest, place).max())
    little = pause * len(gaps[place::times]) < ENOUGH * gaps.sum()
    if little or pause <= PAUSE * within or not _of_one_kind(gaps[place::times]):
        return 0.0
    return 1.0 - within / pause


def _of_one_kind(pauses: Floats) -> bool:
    """Whether each second, third, ... pause is like the others: if not, several of what they delimit are one iteration."""
    for group in range(2, min(TOGETHER, len(pauses) // FEWEST) + 1):
        shortest = _shortest(pauses, group)
        if shortest.max() > SAME * shortest.min():
            return False
    return True


def _shortest(gaps: Floats, times: int) -> Floats:
    """The shortest gaps, but for a few, at each of `times` places."""
    return np.asarray([np.quantile(gaps[place::times], SHORTEST) for place in range(times)])
