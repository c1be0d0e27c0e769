"""The duration of an iteration whose contents are known: from its first message after the computation to the next such one.

The sizes of messages delimit iterations, their times give the duration. A node that computes sends nothing of the model;
its first message after the longest pause starts its iteration. (A server pauses too, but only answers.) A pause unlike the
others holds something else, an evaluation or a checkpoint; the iteration that ends with it is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.profiler.recordings.layout import Floats, Ints
from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.sequence import Repeat
from tiresias.profiler.rhythm.sizes import Classes, alike, usual

SLACK = 0.1  # messages an iteration by which the count of a size may be off for it to mark iterations
FEWEST = 4  # iterations; from fewer no duration is taken
OTHER = 3.0  # silences that differ by a larger factor are not those of computing
HALF = 0.5  # of the nodes must have an iteration to themselves for it to count, and of its iterations a node
RARELY = 0.1  # of the silences may be short
LIGHT = 1e-3  # of the heaviest stream: lighter streams may carry anything, for example the start of the job
LONG = 0.5  # of the longest usual silence: the least for a node to be one that computes


class Beats(NamedTuple):
    """One message of each iteration of a stream, and how long nothing preceded it; seconds."""

    time: Floats
    silence: Floats

    @property
    def usual(self) -> float:
        """The median silence in seconds, 0.0 without any."""
        return float(np.median(self.silence)) if len(self.silence) else 0.0

    @property
    def is_first(self) -> bool:
        """Always: where messages leave in any order, another is the first as often."""
        return float(np.quantile(self.silence, RARELY)) >= LONG * self.usual


NOTHING = Beats(np.empty(0), np.empty(0))


def iteration_time(
    streams: Sequence[Stream], classes: Sequence[Classes], rhythms: Sequence[Repeat | None], seconds: float
) -> float | None:
    """Return the seconds of an iteration that takes about `seconds`; None if no stream shows the contents of an iteration."""
    near = np.asarray([rhythm.seconds if rhythm else np.inf for rhythm in rhythms])
    size = np.asarray([stream.bytes for stream in streams])
    known = np.flatnonzero(alike(near, seconds) & (size >= LIGHT * size.max(initial=0))).tolist()
    nodes: dict[int, Beats] = {}
    for node in {streams[each].sender for each in known}:
        exchanged = [streams[each].time for each in known if node in (streams[each].sender, streams[each].receiver)]
        both = np.sort(np.concatenate(exchanged))
        for each in known:
            if streams[each].sender == node and (rhythm := rhythms[each]):
                found = _beats(streams[each], classes[each], rhythm.iterations, _silence(streams[each], both))
                nodes[node] = max([*found, nodes.get(node, NOTHING)], key=lambda beats: beats.usual)
    longest = max((beats.usual for beats in nodes.values()), default=0.0)
    chosen = [beats for beats in nodes.values() if beats.usual > LONG * longest]
    return _typical(chosen) if chosen else None


def _silence(stream: Stream, exchanged: Floats) -> Floats:
    """Before each message, since the one before it that its sender sent or got."""
    before = np.searchsorted(exchanged, stream.time, "left") - 1
    silence: Floats = np.where(before >= 0, stream.time - exchanged[before], 0.0)
    return silence


def _beats(stream: Stream, classes: Classes, iterations: float, silence: Floats) -> list[Beats]:
    """The message that follows the longest silence, usually; none if no size comes as often in each iteration."""
    times = classes.count / iterations
    found = []
    for each in np.flatnonzero((np.round(times) >= 1) & (np.abs(times - np.round(times)) <= SLACK)).tolist():
        places, group = np.flatnonzero(classes.of == each), round(float(times[each]))
        whole = len(places) // group * group
        if whole >= FEWEST * group:
            rows: Ints = places[:whole].reshape(-1, group)
            place = int(np.median(silence[rows], axis=0).argmax())
            found.append(Beats(stream.time[rows[:, place]], silence[rows[:, place]]))
    found = [beats for beats in found if beats.is_first]
    return [max(found, key=lambda beats: beats.usual)] if found else []


def _typical(chosen: Sequence[Beats]) -> float | None:
    """Iteration by iteration the median node, then the median of them; nodes that saw another number of iterations, for
    one saves checkpoints and another began late, cannot be laid side by side with the others."""
    spans = [row for row in map(_spans, chosen) if np.isfinite(row).sum() >= max(FEWEST, HALF * len(row))]
    if not spans:
        return None
    lengths = Counter(map(len, spans))
    length = max(lengths, key=lambda each: lengths[each])
    if lengths[length] <= HALF * len(spans):
        return float(np.median([np.nanmedian(row) for row in spans]))
    table = np.stack([row for row in spans if len(row) == length])
    plain = table[:, np.isfinite(table).mean(axis=0) >= HALF]
    return float(np.median(np.nanmedian(plain, axis=0))) if plain.shape[1] >= FEWEST else None


def _spans(beats: Beats) -> Floats:
    """Seconds of each iteration; nan where something else happened."""
    before = beats.silence[1:]
    seconds = usual(before)
    plain = (before * OTHER >= seconds) & (before <= seconds * OTHER)
    return np.where(plain, np.diff(beats.time), np.nan)
