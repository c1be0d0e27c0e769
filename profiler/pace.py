"""How long an iteration takes, once it is known what one sends: from one first message after the computing to the next.

Iterations are told apart by what is sent, their duration by when. While a node computes, it exchanges nothing; the
computing is steadier than waiting for others is, so the message that follows the steadiest long silence marks where an
iteration begins. A silence that is unlike the others has something else in it, an evaluation or a checkpoint; what ends
with it is not an iteration alone, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.profiler.layout import Floats, Ints
from tiresias.profiler.messages import Stream
from tiresias.profiler.sequence import Repeat
from tiresias.profiler.sizes import Classes, alike, usual, weighted_median

SLACK = 0.1  # messages an iteration by which the count of a size may be off for it to mark iterations
FEWEST = 4  # iterations; from fewer no duration is taken
OTHER = 3.0  # silences that differ by a larger factor are not those of computing
LONG = 0.3  # of the longest usual silence: the least for one to be of computing


class Beats(NamedTuple):
    """One message of each iteration of a stream, and how long nothing preceded it; seconds."""

    time: Floats
    silence: Floats
    bytes: int  # of the stream

    @property
    def usual(self) -> float:
        return float(np.median(self.silence))

    @property
    def spread(self) -> float:
        """Of the shorter half of its silences: what prolongs others is not of computing."""
        low, middle = np.quantile(self.silence, [0.1, 0.5])
        return float((middle - low) / middle) if middle > 0 else 1.0


def pace(
    streams: Sequence[Stream], classes: Sequence[Classes], rhythms: Sequence[Repeat | None], seconds: float
) -> float | None:
    """Of a job whose iterations take about `seconds`; None if no stream says what an iteration sends."""
    back = {(stream.receiver, stream.sender): stream.time for stream in streams}
    pairs: dict[frozenset[int], list[Beats]] = {}
    for stream, own, rhythm in zip(streams, classes, rhythms, strict=True):
        if rhythm and alike(np.asarray([rhythm.seconds]), seconds)[0]:
            silence = _silence(stream, back.get((stream.sender, stream.receiver), np.empty(0)))
            beats = _beats(stream, own, rhythm.iterations, silence)
            pairs.setdefault(frozenset((stream.sender, stream.receiver)), []).extend(beats)
    chosen = [_steadiest(beats) for beats in pairs.values() if beats]
    if not chosen:
        return None
    return weighted_median(
        np.asarray([_duration(each) for each in chosen]), np.asarray([each.bytes for each in chosen])
    )


def _silence(stream: Stream, back: Floats) -> Floats:
    """Before each message, since the one before it, either way."""
    both = np.sort(np.concatenate([stream.time, back]))
    before = np.searchsorted(both, stream.time, "left") - 1
    silence: Floats = np.where(before >= 0, stream.time - both[before], 0.0)
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
            found.append(Beats(stream.time[rows[:, place]], silence[rows[:, place]], stream.bytes))
    return [max(found, key=lambda beats: beats.usual)] if found else []


def _steadiest(several: Sequence[Beats]) -> Beats:
    longest = max(beats.usual for beats in several)
    return min((beats for beats in several if beats.usual >= LONG * longest), key=lambda beats: beats.spread)


def _duration(beats: Beats) -> float:
    """The median iteration of those in which nothing else happened."""
    spans, before = np.diff(beats.time), beats.silence[1:]
    seconds = usual(before)
    plain = (before * OTHER >= seconds) & (before <= seconds * OTHER)
    return float(np.median(spans[plain])) if plain.sum() >= FEWEST else usual(spans)
