"""Message sizes as symbols. A tensor's message has the same size in each iteration, give or take a header.

Sizes are discrete: an iteration repeats their multiset exactly, however its duration varies. What returns most regularly
on a stream is its anchor; from one anchor to the next is an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.profiler.recordings.layout import Bools, Floats, Ints
from tiresias.profiler.recordings.messages import Stream

HEADER = 64  # bytes by which messages of one tensor may differ: a step counter grows a digit
SLACK = 0.001  # and the share of their size
MULTIPLICITY = 64  # messages of one size in an iteration, at most, for the size to be an anchor
NEAR = 1.5  # spans that differ by no larger a factor are alike
STEADY = 0.5  # the least coherence of an anchor
SETTLED = 0.7  # of the best coherence: the least that is taken for a shorter period
CLOSE = 0.25  # a size whose period differs by more from the job's is not of its iterations
LEADING = 0.1  # of the heaviest size's bytes: the least for an anchor of a known period
# of the time: evaluations may take twice as long as all iterations, the gaps within an iteration do not count
ENOUGH = 0.3
TICK = 1e-9  # seconds
UNDISTURBED = 0.4  # a quantile of the spans that surely is an iteration's own
PROLONGED = 2.5  # spans that differ from it by a larger factor have something else in them
TRIES = 64  # group sizes that are tried for a known period
LONGEST = 20_000  # messages of a size that are looked at for an unknown one
SEVERAL = 8  # classes of a stream that are looked at


@dataclass(frozen=True)
class Classes:
    """`of[i]` is the class of message i; the other arrays have an entry a class."""

    of: Ints
    size: Floats  # mean
    count: Ints

    @property
    def bytes(self) -> Floats:
        """The bytes of each class."""
        return self.size * self.count


@dataclass(frozen=True)
class Anchor:
    """A size class that returns every `seconds`, `times` at a time."""

    size_class: int
    times: int
    seconds: float
    coherence: float  # share of the spans that are like the usual one; less if hardly any time passes in these


def classify(stream: Stream) -> Classes:
    """Join nearly equal message sizes of a stream to classes."""
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


def heaviest(classes: Classes, most: int) -> Ints:
    """The classes that carry most bytes, without those that came once or twice."""
    order = np.argsort(-classes.bytes)[:most]
    return order[classes.count[order] >= 3]


def anchors(stream: Stream, classes: Classes) -> list[Anchor]:
    """The regular ones among the heaviest classes."""
    chosen = heaviest(classes, SEVERAL).tolist()
    found = [_anchor(size_class, stream.time[classes.of == size_class][:LONGEST]) for size_class in chosen]
    return [anchor for anchor in found if anchor]


def anchor_of(stream: Stream, classes: Classes, seconds: float) -> Anchor | None:
    """The steadiest that returns about every `seconds`; None if nothing does. Acknowledgements follow where others lead."""
    found = []
    chosen = heaviest(classes, SEVERAL)
    for size_class in chosen[classes.bytes[chosen] >= LEADING * classes.bytes[chosen[:1]].sum()].tolist():
        time = stream.time[classes.of == size_class]
        for times in _times(time, seconds):
            span = _span(size_class, times, time)
            if abs(span.seconds - seconds) <= CLOSE * seconds:
                found.append(span)
    return max(found, key=lambda anchor: anchor.coherence, default=None)


def counted_anchor(stream: Stream, classes: Classes, iterations: float) -> Anchor | None:
    """The one that came most nearly a whole number of times in each of `iterations`."""
    chosen = heaviest(classes, SEVERAL)
    times = classes.count[chosen] / iterations
    whole = np.maximum(np.round(times), 1)
    if not len(chosen):
        return None
    best = int(np.argmin(np.abs(times - whole) / whole))
    size_class, group = int(chosen[best]), int(whole[best])
    time = stream.time[classes.of == size_class]
    return _span(size_class, group, time) if group < len(time) else None


def _times(time: Floats, seconds: float) -> range:
    """How many of them may come in `seconds`."""
    place = np.arange(len(time))
    low, high = (
        np.median(np.searchsorted(time, time + seconds * share, "right") - place) for share in (1 - CLOSE, 1 + CLOSE)
    )
    first, last = max(int(low) - 1, 1), min(int(high) + 1, len(time) - 1)
    return range(first, last + 1, (last - first) // TRIES + 1)


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
    seconds = usual(spans)
    similar = alike(spans, seconds)
    in_time = float(spans[similar].sum() / max(spans.sum(), TICK))
    return Anchor(size_class, times, seconds, min(in_time / ENOUGH, 1.0) * float(similar.mean()))


def usual(spans: Floats) -> float:
    """The median without those that something prolonged: evaluations and checkpoints may follow two of five iterations."""
    seconds = float(np.quantile(spans, UNDISTURBED, method="lower"))
    for _ in range(2):
        seconds = float(np.median(spans[(spans * PROLONGED >= seconds) & (spans <= seconds * PROLONGED)]))
    return seconds


def alike(spans: Floats, seconds: float) -> Bools:
    """Iterations vary, and two of them are no longer one."""
    return (spans * NEAR >= seconds) & (spans <= seconds * NEAR)


def weighted_median(values: Floats, weights: Floats) -> float:
    """Return the value at half of the total weight."""
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(passed, passed[-1] / 2), len(values) - 1)])
