"""The analysis of a job: from recordings to a profile, step by step. Pure functions.

traffic or collectives -> sizes as classes -> period -> contents of an iteration -> shape -> verdict
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.profiler.iteration import collectives
from tiresias.profiler.iteration.contents import Contents, contents
from tiresias.profiler.iteration.shape import TrafficShape, shape
from tiresias.profiler.placement_verdict import PACKLIMIT, PlacementVerdict, decide
from tiresias.profiler.recordings.communicators import CommunicatorGroup
from tiresias.profiler.recordings.messages import JobTraffic, Stream
from tiresias.profiler.recordings.recording import Recording
from tiresias.profiler.rhythm import period as periods
from tiresias.profiler.rhythm.period import Period
from tiresias.profiler.rhythm.sizes import classify, weighted_median


@dataclass(frozen=True)
class Profile:
    """The profile of a job. Bytes and seconds refer to one iteration unless stated otherwise."""

    traffic: JobTraffic
    groups: Mapping[int, CommunicatorGroup]  # nodes that are collectives: what they get is what ranks give to a call
    period: Period | None
    iterations: int
    streams: tuple[Contents, ...]
    shape: TrafficShape
    largest: float  # bytes of the largest tensor (parameter servers), collective or message
    skew: float | None  # largest tensor / model; None where tensors cannot be seen
    compute: float  # seconds
    intensity: float | None  # communication share rho; None without a bandwidth
    verdict: PlacementVerdict
    notes: tuple[str, ...]

    @property
    def share(self) -> float | None:
        """The skew, or what it is at most: of the largest collective, which holds the largest tensor."""
        if self.skew is None and self.groups and self.shape.model:
            return self.largest / self.shape.model
        return self.skew

    @property
    def bytes(self) -> float:
        """The bytes of all streams in one iteration."""
        return sum(each.bytes for each in self.streams)


def analyze(recordings: Sequence[Recording], packlimit: float = PACKLIMIT, bandwidth: float | None = None) -> Profile:
    """`bandwidth`: of a node's link, bytes a second."""
    seen, groups, mismatches = collectives.view(recordings)
    classes = [classify(stream) for stream in seen.streams]
    rhythms = [periods.rhythm(stream, own) for stream, own in zip(seen.streams, classes, strict=True)]
    period = periods.find(seen.streams, classes, rhythms)
    each = zip(seen.streams, classes, rhythms, strict=True) if period else ()
    found = tuple(contents(stream, own, own_rhythm, period.seconds) for stream, own, own_rhythm in each if period)
    model = collectives.shape(found, groups) if groups else shape(found)
    iterations = _iterations(found)
    largest = model.largest or collectives.largest(found, groups) or max((each.largest for each in found), default=0.0)
    skew = largest / model.model if model.shows_tensors else None
    compute = _compute(seen.streams, iterations)
    intensity = _busiest(found, groups) / bandwidth / compute if bandwidth and compute > 0 else None
    verdict = decide(period, iterations, model, skew, intensity, packlimit)
    return Profile(
        seen,
        groups,
        period,
        iterations,
        found,
        model,
        largest,
        skew,
        compute,
        intensity,
        verdict,
        (*_notes(recordings, seen, groups), *mismatches),
    )


def _iterations(found: Sequence[Contents]) -> int:
    """What the streams agree on, by weight."""
    counted = [each for each in found if each.iterations]
    if not counted:
        return 0
    return round(
        weighted_median(
            np.asarray([float(each.iterations) for each in counted]), np.asarray([each.bytes for each in counted])
        )
    )


def _compute(streams: Sequence[Stream], iterations: int) -> float:
    """Return the median over iterations of the longest time without a message: all processes compute then."""
    time = np.sort(np.concatenate([stream.time for stream in streams])) if streams else np.empty(0)
    silences = np.sort(np.diff(time))[::-1][:iterations]
    return float(np.median(silences)) if len(silences) else 0.0


def _busiest(found: Sequence[Contents], groups: Mapping[int, CommunicatorGroup]) -> float:
    """Bytes over the busiest link, one way, if each process has a node of its own. Collectives go along rings."""
    ways: dict[tuple[int, str], float] = defaultdict(float)
    for each in found:
        size = each.bytes * collectives.weight(groups, each.receiver)
        ways[each.sender, "out"] += size
        ways[each.sender if each.receiver in groups else each.receiver, "in"] += size
    return max(ways.values(), default=0.0)


def _notes(recordings: Sequence[Recording], seen: JobTraffic, groups: Mapping[int, CommunicatorGroup]) -> list[str]:
    notes = [f"{recording.path.name}: {note}" for recording in recordings for note in recording.notes]
    notes += seen.joined.mismatches
    nodes = {node for stream in seen.streams for node in (stream.sender, stream.receiver)} - set(groups)
    strangers = [node for node in nodes if node >= seen.joined.recorded]
    if strangers:
        notes.append(f"{len(strangers)} ends of connections were not recorded")
    return notes
