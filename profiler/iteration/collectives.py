"""Profiles of jobs from their collective calls: NCCL cuts each call into slices, so its connections reveal less than the calls do.

Times are those of the calls, which programs make ahead of the device. A framework joins gradients to buckets, of which
none holds less than its tensors: so the largest collective's share of the model is the most that the skew can be, and
near to it if buckets are small (DDP: bucket_cap_mb=1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.profiler.iteration.contents import Contents
from tiresias.profiler.iteration.shape import UNKNOWN, TrafficShape
from tiresias.profiler.network import cross_check
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.communicators import NAMES, CommunicatorGroup, groups
from tiresias.profiler.recordings.messages import JobTraffic, traffic
from tiresias.profiler.recordings.recording import Recording

WIRE = (layout.TCP, layout.QUEUE_PAIR, layout.DATAGRAM)


class View(NamedTuple):
    """The traffic, each byte once. Nodes in `groups` are collectives; there are none where the wire was measured."""

    traffic: JobTraffic
    groups: Mapping[int, CommunicatorGroup]
    notes: tuple[str, ...]


def view(recordings: Sequence[Recording]) -> View:
    """Collectives where they were recorded and explain most of what the job sent, else the wire."""
    if not any((each.channels["kind"] == layout.COLLECTIVE).any() for each in recordings):
        return View(traffic(recordings), {}, ())
    called = traffic(cross_check.only(recordings, layout.COLLECTIVE))
    wire = traffic(cross_check.only(recordings, *WIRE))
    nodes = groups(recordings, called.joined.peers)
    notes = tuple(cross_check.collectives(recordings, called, nodes, wire))
    explained = sum(each.bytes * weight(nodes, each.receiver) for each in called.streams)
    if 2 * explained >= sum(each.bytes for each in wire.streams):
        return View(called, nodes, notes)
    return View(wire, {}, notes)


def weight(nodes: Mapping[int, CommunicatorGroup], receiver: int) -> float:
    """Bytes that leave the sender for one that it gives to `receiver`."""
    return nodes[receiver].factor if receiver in nodes else 1.0


def shape(found: Sequence[Contents], nodes: Mapping[int, CommunicatorGroup]) -> TrafficShape:
    """The model is what one communicator's ranks reduce in an iteration, of the communicator that reduces most. Where
    layers or tensors are split over ranks that is the part of a rank."""
    calls = [each for each in found if _reduced(each, nodes)]
    models = {key: _model(calls, nodes, key) for key in {nodes[each.receiver].hash for each in calls}}
    if not models:
        return TrafficShape(UNKNOWN, 0, 0.0)
    chosen = max(models, key=lambda key: models[key])
    main = max(_of(calls, nodes, chosen), key=lambda each: _reduced(each, nodes))
    group = nodes[main.receiver]
    return TrafficShape(f"collective {NAMES[group.function]}", group.ranks, models[chosen])


def largest(found: Sequence[Contents], nodes: Mapping[int, CommunicatorGroup]) -> float:
    """Bytes of the model that go through one call, at most; 0 where none reduces."""
    return max((each.largest * nodes[each.receiver].reduces for each in found if each.receiver in nodes), default=0.0)


def _reduced(each: Contents, nodes: Mapping[int, CommunicatorGroup]) -> float:
    return each.bytes * nodes[each.receiver].reduces if each.receiver in nodes else 0.0


def _of(calls: Sequence[Contents], nodes: Mapping[int, CommunicatorGroup], communicator: int) -> list[Contents]:
    return [each for each in calls if nodes[each.receiver].hash == communicator]


def _model(calls: Sequence[Contents], nodes: Mapping[int, CommunicatorGroup], communicator: int) -> float:
    """Of the median rank."""
    sums: dict[int, float] = defaultdict(float)
    for each in _of(calls, nodes, communicator):
        sums[each.sender] += _reduced(each, nodes)
    return float(np.median(list(sums.values())))
