"""How often each size came: in N iterations, N times as often as in one.

Blind to time, and to order within an iteration, so that it holds for programs that send tensors in whatever order they
get ready, and for those that pause.
"""

from __future__ import annotations

import numpy as np

from tiresias.profiler.recordings.layout import Floats, Ints
from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.message_windows import MessageWindows
from tiresias.profiler.rhythm.sequence import Repeat
from tiresias.profiler.rhythm.sizes import Classes, heaviest, usual, weighted_median

CLASSES = 32  # that are looked at
LONGEST = 100_000  # messages that are cut into pieces
TIMES = 64  # of the least frequent in one iteration, at most
UNEVEN = 0.25  # the most that pieces may differ more than the most even ones do
EVEN = 0.03  # iterations differ by that much: one sends its last message late
NEARBY, BETTER = 2.1, 4.0  # factors of the number of iterations, and of how uneven they are
SLACK = 0.1  # messages an iteration by which a count may be off: recordings start and end anywhere
SHARE = 0.01  # and the share of the count: the first iteration differs
FEWEST = 3
DOMINANT = 0.9  # a class with a larger share of the bytes would explain itself


def common_count(stream: Stream, classes: Classes) -> Repeat | None:
    """The largest number of iterations that explains (nearly) all counts, and that are alike."""
    chosen = heaviest(classes, CLASSES)
    count, weight = classes.count[chosen].astype(float), classes.bytes[chosen]
    proposed = np.unique(np.outer(count, 1 / np.arange(1, TIMES + 1)))
    proposed = proposed[proposed >= FEWEST]
    whole = float(classes.bytes.sum())
    if not len(proposed) or weight.max() > DOMINANT * whole:
        return None
    scores = np.asarray([_explained(count, weight, iterations) / whole for iterations in proposed])
    likely = np.flatnonzero(scores >= 0.95 * scores.max())
    place = likely[_alike(classes, chosen, proposed[likely])]
    seconds = _seconds(stream, classes, float(proposed[place]))
    return Repeat("counts", float(proposed[place]), seconds, float(scores[place])) if seconds else None


def _alike(classes: Classes, chosen: Ints, iterations: Floats) -> int:
    """The last of the numbers of iterations that cuts the messages into pieces that are composed alike.

    A number somewhat too large leaves out little of each piece: one is wrong if a lower one nearby is right.
    """
    windows = MessageWindows(classes.of[np.isin(classes.of, chosen)][:LONGEST], classes.size)
    lengths = np.round(classes.count[chosen].sum() / iterations).astype(int)
    uneven = 1 - np.asarray([windows.evenness(length) for length in lengths.tolist()])
    for place in np.flatnonzero(uneven <= uneven.min() + UNEVEN)[::-1]:
        near = (iterations < iterations[place]) & (iterations > iterations[place] / NEARBY)
        if uneven[place] <= EVEN or not (uneven[near] < uneven[place] / BETTER).any():
            return int(place)
    return 0


def _explained(count: Floats, weight: Floats, iterations: float) -> float:
    times = count / iterations
    fits = (np.round(times) >= 1) & (np.abs(times - np.round(times)) <= np.maximum(SLACK, SHARE * times))
    return float(weight[fits].sum())


def _seconds(stream: Stream, classes: Classes, iterations: float) -> float:
    """From the n-th message of a size to the n-th after it, n of them an iteration."""
    found, weight = [], []
    for each in heaviest(classes, CLASSES).tolist():
        time, times = stream.time[classes.of == each], round(classes.count[each] / iterations)
        if 1 <= times < len(time):
            found.append(usual(time[times:] - time[:-times]))
            weight.append(float(classes.bytes[each]))
    return weighted_median(np.asarray(found), np.asarray(weight)) if found else 0.0
