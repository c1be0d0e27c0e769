"""Message sizes as symbols. A tensor's message has the same size in each iteration, give or take a header.

Sizes are discrete: an iteration repeats their multiset exactly, however its duration varies. What returns most regularly
on a stream is its anchor; from one anchor to the next is an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.profiler.layout import Bools, Floats, Ints
from tiresias.profiler.messages import Stream

HEADER = 64  # bytes by which messages of one tensor may differ: a step counter grows a digit
SLACK = 0.001  # and the share of their size
MULTIPLICITY = 64  # messages of one size in an iteration, at most, for the size to be an anchor
NEAR = 1.5  # spans that differ by no larger a factor are alike
STEADY = 0.5  # the least coherence of an anchor
SETTLED = 0.7


@dataclass(frozen=True)
class Classes:
    """`of[i]` is the class of message i; the other arrays have an entry a class."""

    of: Ints
    size: Floats  # mean
    count: Ints

    @property
    def bytes(self) -> Floats:
        return self.size * self.count


@dataclass(frozen=True)
class Anchor:
    """A size class that returns every `seconds`, `times` at a time."""

    size_class: int
    times: int
    seconds: float
    coherence: float  # share of the spans that are like the median one


def classify(stream: Stream) -> Classes:
    sizes, of = np.unique(stream.size, return_inverse=True)
    merged = np.empty(len(sizes), np.int64)
    low, number = -1.0, -1
    for index, size in enumerate(sizes.tolist()):
        if number < 0 or size > low + min(HEADER, low / 4) + low * SLACK:
            low, number = size, number + 1
        merged[index] = number
    classes = merged[of.reshape(-1)]
    count = np.bincount(classes)
    return Classes(classes, np.bincount(classes, stream.size) / count, count)


def anchors(stream: Stream, classes: Classes, most: int = 12) -> list[Anchor]:
    """The regular ones among the classes that carry most bytes."""
    found = []
    for size_class in np.argsort(-classes.bytes)[:most].tolist():
        anchor = _anchor(size_class, stream.time[classes.of == size_class])
        if anchor:
            found.append(anchor)
    return found


def _anchor(size_class: int, time: Floats) -> Anchor | None:
    """How many a group? The least that returns about as steadily as any.

    Multiples return as steadily, and an evaluation after every tenth iteration makes ten of them the steadiest: hence
    SETTLED. One or two messages less than a group do too if the group is large: hence the second look.
    """
    spans = [_span(size_class, times, time) for times in range(1, min(MULTIPLICITY, len(time) // 3) + 1)]
    best = max((span.coherence for span in spans), default=0.0)
    if best < STEADY:
        return None
    first = next(span for span in spans if span.coherence >= SETTLED * best)
    return max(spans[first.times - 1 : first.times * 3 // 2], key=lambda span: span.coherence)


def _span(size_class: int, times: int, time: Floats) -> Anchor:
    spans = time[times:] - time[:-times]
    median = float(np.median(spans))
    return Anchor(size_class, times, median, float(alike(spans, median).mean()))


def alike(spans: Floats, usual: float) -> Bools:
    """Iterations vary, and two of them are no longer one."""
    return (spans * NEAR >= usual) & (spans <= usual * NEAR)
