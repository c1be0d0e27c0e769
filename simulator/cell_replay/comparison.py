"""The comparison of a recorded sequence with the decisions of `VirtualClusters`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.simulator.cell_replay.cell_events import RecordedSequence
from tiresias.simulator.cell_replay.pod_replay import PodReplay
from tiresias.simulator.cell_replay.published_method import broken_at

_CRASH = "panic"  # the recorded answer where HiveD's implementation ended


@dataclass(frozen=True)
class EventDifference:
    """An event that differs.

    Attributes:
        event: The event's number, from 0.
        request: The event without the recorded answer.
        recorded: The recorded answer.
        here: The answer of `VirtualClusters`.
    """

    event: int
    request: Mapping[str, Any]
    recorded: Mapping[str, Any]
    here: Mapping[str, Any]


@dataclass
class SequenceComparison:
    """The comparison of one sequence.

    Attributes:
        sequence: Its name.
        events: Number of events.
        differences: Those that differ.
        broken: Broken invariants, with the event.
        published_breaks: Where the published method breaks its own invariants, up to the first difference; "": nowhere.
    """

    sequence: str
    events: int
    differences: list[EventDifference] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    published_breaks: str = ""

    @property
    def identical(self) -> bool:
        """Whether no event differs and no invariant is broken."""
        return not (self.differences or self.broken)


def compared(spec: CellSpecification, sequence: RecordedSequence, *, invariants: bool = False) -> SequenceComparison:
    """Replay a sequence. From a recorded crash on there are no answers to compare with."""
    replay = PodReplay(spec, sorted_start=sequence.sorted_start)
    result, crashed = SequenceComparison(sequence.name, len(sequence.events)), False
    for number, event in enumerate(sequence.events):
        here, recorded = _answer(replay, event), event.get("result")
        crashed = crashed or (recorded is not None and recorded.get("kind") == _CRASH)
        if recorded is not None and not crashed and _normal(recorded) != here:
            request = {key: value for key, value in event.items() if key != "result"}
            result.differences.append(EventDifference(number, request, recorded, here))
        if invariants and not result.broken:
            result.broken += [f"event {number}: {each}" for each in violations(replay.clusters)]
    if result.differences and (broken := broken_at(spec, sequence, result.differences[0].event)):
        result.published_breaks = f"event {broken[0]}: {broken[1]}"
    return result


def _answer(replay: PodReplay, event: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return replay.apply(event)
    except UsageError as error:
        return {"kind": "error", "message": str(error)}


def _normal(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The sets of an answer in ascending order."""
    return {key: sorted(value) if key in ("victims", "lazy_preempted") else value for key, value in recorded.items()}
