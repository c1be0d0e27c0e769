"""Consolidate, spread, or unknown: the placement that a job's traffic requires, with reasons (paper, section 3.3).

With parameter servers the skew decides, the largest tensor's share of the model: one huge message waits on one link
where many small ones interleave. For an all-reduce tensors are joined and cut into even segments, so that no skew is
left to see; there the communication intensity decides: seconds on the wire for a second of computing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.profiler.iteration.shape import TrafficShape
from tiresias.profiler.rhythm.period import Period

CONSOLIDATE, SPREAD, UNKNOWN = "consolidate", "spread", "unknown"
PACKLIMIT = 0.4  # Table 6: models sensitive to placement are at 0.61 and more, the others at 0.15 and less
INTENSITY_LIMIT = 0.5  # a third of an iteration is on the wire if nothing overlaps
SURE = 0.4  # the least confidence in the period; random traffic gets half of it
ITERATIONS = 4  # the least


@dataclass(frozen=True)
class PlacementVerdict:
    """The placement that a job's traffic requires, with reasons."""

    decision: str
    reasons: tuple[str, ...]


def decide(
    period: Period | None,
    iterations: int,
    shape: TrafficShape,
    skew: float | None,
    intensity: float | None,
    packlimit: float = PACKLIMIT,
) -> PlacementVerdict:
    """Return the verdict on a job; `skew` and `intensity` are None where they cannot be measured."""
    if period is None:
        return PlacementVerdict(UNKNOWN, ("no periodic traffic detected",))
    doubts = _doubts(period, iterations)
    if doubts:
        return PlacementVerdict(UNKNOWN, doubts)
    if skew is not None:
        return _by_skew(shape, skew, packlimit)
    if shape.workers:
        return _by_intensity(shape, intensity)
    return PlacementVerdict(UNKNOWN, ("its traffic is neither that of parameter servers nor of an all-reduce",))


def _doubts(period: Period, iterations: int) -> tuple[str, ...]:
    doubts = []
    if period.confidence < SURE:
        doubts.append(f"the iteration time is uncertain (confidence {period.confidence:.2f}, {SURE} is required)")
    if iterations < ITERATIONS:
        doubts.append(f"only {iterations} iterations were seen, {ITERATIONS} are required")
    return tuple(doubts)


def _by_skew(shape: TrafficShape, skew: float, packlimit: float) -> PlacementVerdict:
    above = skew > packlimit
    compared = (
        f"its largest tensor is {skew:.1%} of the model, {'above' if above else 'not above'} PACKLIMIT {packlimit:.0%}"
    )
    return PlacementVerdict(CONSOLIDATE if above else SPREAD, (compared, _carried(shape)))


def _carried(shape: TrafficShape) -> str:
    if not shape.servers:
        return f"{shape.kind} of {shape.workers} in buckets so small that the largest is hardly more than its tensor"
    fullest = max(server.bytes for server in shape.servers)
    return f"the fullest of {len(shape.servers)} parameter servers has {fullest / shape.model:.0%} of the model"


def _by_intensity(shape: TrafficShape, intensity: float | None) -> PlacementVerdict:
    hidden = f"{shape.kind} of {shape.workers}: tensors are cut and joined, no skew can be seen"
    if intensity is None:
        return PlacementVerdict(
            UNKNOWN, (hidden, "how much of an iteration it communicates needs the bandwidth of a link")
        )
    above = intensity > INTENSITY_LIMIT
    compared = (
        f"{intensity:.2f} s on the wire a second of computing, {'above' if above else 'not above'} {INTENSITY_LIMIT}"
    )
    return PlacementVerdict(CONSOLIDATE if above else SPREAD, (hidden, compared))
