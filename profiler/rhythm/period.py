"""The period of the iterations, by a weighted vote of all streams and of the load over time.

A stream votes by the repeat of its sequence of sizes; without an order, by the count of each size; without clear counts, by
its pauses; without clear pauses, by the return of its anchors. AUTOPERIOD votes by the load over time. Each vote has a weight;
the period with most weight wins, and its share of the whole weight is the confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.profiler.recordings.layout import Bools, Floats
from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.counts import common_count
from tiresias.profiler.rhythm.iteration_time import iteration_time
from tiresias.profiler.rhythm.pauses import paused
from tiresias.profiler.rhythm.sequence import Repeat, repeat
from tiresias.profiler.rhythm.sizes import Classes, alike, anchors, weighted_median
from tiresias.profiler.rhythm.spectrum import autoperiod

CLEAR = 0.8  # the least score of a sequence, and of counts
AGREE = 0.2  # periods that differ by less are the same one, seen through what else a machine does
KINDS = ("sequence", "counts", "pauses", "anchors", "spectrum")
# what it weighs: it takes two halves that look alike for two iterations, and ten with an evaluation for one
SPECTRUM = 0.3


class Vote(NamedTuple):
    """One estimate of the period, in seconds, by one kind of evidence."""

    kind: str
    seconds: float
    weight: float


class Period(NamedTuple):
    """The seconds of an iteration, and the share of the votes for it."""

    seconds: float
    confidence: float
    opinions: dict[str, float]  # seconds, by kind of evidence


class Votes(NamedTuple):
    """All votes, as columns; weights are shares of the job's bytes, times the certainty of the vote."""

    kind: list[str]
    seconds: Floats
    weight: Floats


def rhythm(stream: Stream, classes: Classes) -> Repeat | None:
    """Return the repeat of a stream if its sizes show it clearly, else None."""
    for estimate in (repeat, common_count, paused):
        found = estimate(stream, classes)
        if found and found.score >= CLEAR and found.seconds > 0:
            return found
    return None


def find(streams: Sequence[Stream], classes: Sequence[Classes], rhythms: Sequence[Repeat | None]) -> Period | None:
    """Return the period of a job; None without any vote: too few messages, or no periodic traffic."""
    cast = [*_streams(streams, classes, rhythms), *_spectrum(streams)] if streams else []
    if not cast:
        return None
    votes = Votes([v.kind for v in cast], *(np.asarray([v[column] for v in cast]) for column in (1, 2)))
    support = [float(votes.weight[_near(votes.seconds, each)].sum()) for each in votes.seconds]
    won = _near(votes.seconds, votes.seconds[int(np.argmax(support))])
    confidence = max(support) / max(float(votes.weight.sum()), 1.0)
    voted = weighted_median(votes.seconds[won], votes.weight[won])
    measured = iteration_time(streams, classes, rhythms, voted)
    seconds = measured if measured and _fits(measured, votes.seconds[won], votes.weight[won]) else voted
    return Period(seconds, confidence, _opinions(votes))


def _fits(seconds: float, voted: Floats, weight: Floats) -> bool:
    """Whether most of the votes agree with `seconds`."""
    return float(weight[alike(voted, seconds)].sum()) >= CLEAR * float(weight.sum())


def _near(seconds: Floats, one: float) -> Bools:
    return np.abs(np.log(seconds / one)) < AGREE


def _opinions(votes: Votes) -> dict[str, float]:
    """The weighted median of each kind."""
    kinds = {}
    for kind in KINDS:
        own = np.asarray([each == kind for each in votes.kind])
        if own.any():
            kinds[kind] = weighted_median(votes.seconds[own], votes.weight[own])
    return kinds


def _streams(streams: Sequence[Stream], classes: Sequence[Classes], rhythms: Sequence[Repeat | None]) -> Iterator[Vote]:
    total = max(sum(stream.bytes for stream in streams), 1)
    for stream, own, found in zip(streams, classes, rhythms, strict=True):
        votes = [Vote(found.kind, found.seconds, found.score)] if found else _of_anchors(stream, own)
        yield from (vote._replace(weight=vote.weight * stream.bytes / total) for vote in votes if vote.seconds > 0)


def _of_anchors(stream: Stream, classes: Classes) -> Iterator[Vote]:
    """The weight of each is its share of the stream."""
    for anchor in anchors(stream, classes):
        share = float(classes.bytes[anchor.size_class]) / max(stream.bytes, 1)
        yield Vote("anchors", anchor.seconds, anchor.coherence * share)


def _spectrum(streams: Sequence[Stream]) -> Iterator[Vote]:
    time, size = (np.concatenate([stream[column] for stream in streams]) for column in (2, 3))
    hill = autoperiod(time, size)
    if hill:
        yield Vote("spectrum", hill.seconds, SPECTRUM * hill.strength)
