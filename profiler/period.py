"""How long an iteration takes: three kinds of witnesses, one vote.

The repeat of each stream's size sequence and the return of each stream's anchors know the sizes; AUTOPERIOD knows the
load over time only. Each says how sure it is; the period with most weight behind it wins, and its share of the whole
weight is the confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.profiler.layout import Bools, Floats
from tiresias.profiler.messages import Stream
from tiresias.profiler.sequence import repeat
from tiresias.profiler.sizes import Classes, anchors
from tiresias.profiler.spectrum import autoperiod

AGREE = 0.06  # periods that differ by less are the same one
WEIGHT = {"sequence": 1.0, "anchor": 1.0, "spectrum": 0.5}


class Vote(NamedTuple):
    kind: str
    seconds: float
    weight: float


class Period(NamedTuple):
    seconds: float
    confidence: float
    opinions: dict[str, float]  # seconds, of each kind of witness


class Votes(NamedTuple):
    """What the witnesses said, an entry each; weights are shares of the job's bytes, times how sure they are."""

    kind: list[str]
    seconds: Floats
    weight: Floats


def find(streams: Sequence[Stream], classes: Sequence[Classes]) -> Period | None:
    """None if nobody has an opinion: too few messages, or nothing returns."""
    heard = [*_sequences(streams, classes), *_anchors(streams, classes), *_spectrum(streams)]
    if not heard:
        return None
    votes = Votes([v.kind for v in heard], *(np.asarray([v[column] for v in heard]) for column in (1, 2)))
    support = [float(votes.weight[_near(votes.seconds, each)].sum()) for each in votes.seconds]
    won = _near(votes.seconds, votes.seconds[int(np.argmax(support))])
    confidence = max(support) / max(float(votes.weight.sum()), 1.0)
    return Period(weighted_median(votes.seconds[won], votes.weight[won]), confidence, _opinions(votes))


def weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(passed, passed[-1] / 2), len(values) - 1)])


def _near(seconds: Floats, one: float) -> Bools:
    return np.abs(np.log(seconds / one)) < AGREE


def _opinions(votes: Votes) -> dict[str, float]:
    """The weighted median of each kind."""
    kinds = {}
    for kind in WEIGHT:
        own = np.asarray([each == kind for each in votes.kind])
        if own.any():
            kinds[kind] = weighted_median(votes.seconds[own], votes.weight[own])
    return kinds


def _sequences(streams: Sequence[Stream], classes: Sequence[Classes]) -> Iterator[Vote]:
    total = _bytes(streams)
    for stream, own in zip(streams, classes, strict=True):
        found = repeat(stream, own)
        if found and found.seconds > 0:
            yield Vote("sequence", found.seconds, WEIGHT["sequence"] * found.score**2 * stream.bytes / total)


def _anchors(streams: Sequence[Stream], classes: Sequence[Classes]) -> Iterator[Vote]:
    total = _bytes(streams)
    for stream, own in zip(streams, classes, strict=True):
        for anchor in anchors(stream, own):
            share = float(own.bytes[anchor.size_class]) / total
            if anchor.seconds > 0:
                yield Vote("anchor", anchor.seconds, WEIGHT["anchor"] * anchor.coherence * share)


def _spectrum(streams: Sequence[Stream]) -> Iterator[Vote]:
    time, size = (np.concatenate([stream[column] for stream in streams]) for column in (2, 3))
    hill = autoperiod(time, size)
    if hill:
        yield Vote("spectrum", hill.seconds, WEIGHT["spectrum"] * hill.strength)


def _bytes(streams: Sequence[Stream]) -> int:
    return max(sum(stream.bytes for stream in streams), 1)
