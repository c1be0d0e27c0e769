"""Checks of one source of data against another: collectives against the wire, the wire against the ports of a node.

A difference means that data took a way that is not recorded: direct verbs, RDMA that a GPU begins, shared memory. Only
whole recordings are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tiresias.profiler.network import port_counters
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.communicators import CommunicatorGroup
from tiresias.profiler.recordings.messages import JobTraffic, traffic
from tiresias.profiler.recordings.recording import Recording

TOLERANCE = 0.2  # protocols put up to 7 % on top, and small messages count double


def only(recordings: Sequence[Recording], *kinds: int) -> list[Recording]:
    """Without the records of channels of other kinds."""
    return [replace(each, records=each.records[_of_kinds(each, kinds)]) for each in recordings]


def _of_kinds(recording: Recording, kinds: Sequence[int]) -> layout.Bools:
    chosen = np.isin(recording.channels["kind"], kinds)
    return chosen[recording.records["channel"]] if len(chosen) else np.zeros(len(recording.records), bool)


def collectives(
    recordings: Sequence[Recording], called: JobTraffic, groups: Mapping[int, CommunicatorGroup], wire: JobTraffic
) -> Iterator[str]:
    """Notes on nodes whose wire carried more or less than their collectives take along a ring."""
    expected, carried = needed(recordings, called, groups), _leaving(recordings, wire)
    for host in sorted(set(expected) & set(carried) & _whole(recordings)):
        required, found = expected[host], carried[host]
        if abs(found - required) > TOLERANCE * max(found, required):
            less = (
                "a part went where it is not recorded, or the network reduced it" if found < required else "others sent"
            )
            yield (
                f"{host}: collectives take {required:,.0f} bytes along a ring, {found:,.0f} were recorded on the wire: {less}"
            )


def ports(recordings: Sequence[Recording], sent: Mapping[str, int]) -> Iterator[str]:
    """Notes on hosts whose InfiniBand ports `sent` other amounts, in bytes, than their queue pairs did."""
    recorded = _leaving(recordings, traffic(only(recordings, layout.QUEUE_PAIR, layout.DATAGRAM)))
    for host in sorted(set(sent) & _whole(recordings)):
        if note := port_counters.compare(sent[host], round(recorded.get(host, 0.0))):
            yield f"{host}: {note}"


def needed(
    recordings: Sequence[Recording], called: JobTraffic, groups: Mapping[int, CommunicatorGroup]
) -> dict[str, float]:
    """Bytes that leave each host if collectives go along rings: of the ranks of a host one is the last of the ring."""
    most: dict[tuple[str, int], float] = defaultdict(float)
    for stream in called.streams:
        group = groups.get(stream.receiver)
        if group and group.nodes > 1:
            key = _host(recordings, stream.sender), stream.receiver
            most[key] = max(most[key], stream.bytes * group.factor)
    leaving = _leaving(recordings, called, set(groups))
    for (host, _), size in most.items():
        leaving[host] = leaving.get(host, 0.0) + size
    return leaving


def _leaving(recordings: Sequence[Recording], seen: JobTraffic, groups: set[int] | None = None) -> dict[str, float]:
    """Bytes from each recorded host to others; `groups`: nodes that are no processes."""
    sums: dict[str, float] = {}
    for stream in seen.streams:
        here, there = (_host(recordings, node) for node in (stream.sender, stream.receiver))
        if here and here != there and stream.receiver not in (groups or ()):
            sums[here] = sums.get(here, 0.0) + stream.bytes
    return sums


def _host(recordings: Sequence[Recording], node: int) -> str:
    """Empty for those that were not recorded."""
    return recordings[node].host if node < len(recordings) else ""


def _whole(recordings: Sequence[Recording]) -> set[str]:
    return {each.host for each in recordings} - {each.host for each in recordings if each.dropped}
