"""Brings the two ends of each connection together.

A connection is known by its two addresses, which both of its processes wrote down the other way round: (address, port)
for TCP, (gid or lid, queue pair) for verbs, (communicator, rank) for what passes between two ranks. A collective is a
node of its own, to which each of its ranks sends what it gives to the call. Loopback addresses mean something on their
own host only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

import numpy as np

from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.communicators import party
from tiresias.profiler.recordings.recording import Recording

TOLERANCE = 0.01  # of a connection's bytes may be on their way when both ends are looked at
NO_PORT = -1  # of a collective, which has all ranks at its other end
IN_FLIGHT = 8 << 20  # bytes that socket buffers hold


class Endpoint(NamedTuple):
    """One end of a connection: an address, or a communicator without a port."""

    place: str
    port: int

    def __str__(self) -> str:
        return f"{self.place}:{self.port}" if self.port != NO_PORT else self.place


class Port(NamedTuple):
    """A channel of a recording, and when it was opened."""

    opened: float
    recording: int
    channel: int


@dataclass(frozen=True)
class Joined:
    """`peers[recording][channel]` is the index of the node at the other end.

    Nodes 0.. are the recordings in their order, those that follow are ends of which there is no recording.
    """

    nodes: tuple[str, ...]
    recorded: int
    peers: tuple[tuple[int, ...], ...]
    mismatches: tuple[str, ...]


def join(recordings: Sequence[Recording]) -> Joined:
    """Cost: O(n log n) in the number of channels."""
    ends = [[_ends(recording, index) for index in range(len(recording.channels))] for recording in recordings]
    ports: dict[tuple[Endpoint, Endpoint], list[Port]] = defaultdict(list)
    for number, each in enumerate(ends):
        for index, pair in enumerate(each):
            ports[pair].append(Port(_opened(recordings[number], index), number, index))
    for several in ports.values():
        several.sort()
    strangers: dict[Endpoint, int] = {}
    peers = tuple(
        tuple(
            _peer(_opened(recordings[number], index), ports.get(pair[::-1]), pair[1], len(recordings), strangers)
            for index, pair in enumerate(each)
        )
        for number, each in enumerate(ends)
    )
    nodes = (*(recording.name for recording in recordings), *map(str, strangers))
    return Joined(nodes, len(recordings), peers, tuple(_mismatches(recordings, ports)))


def _ends(recording: Recording, channel: int) -> tuple[Endpoint, Endpoint]:
    row = recording.channels[channel]
    if row["kind"] == layout.COLLECTIVE:
        return _ranks(row)
    return _end(recording, row["local"]), _end(recording, row["remote"])


def _ranks(row: np.void) -> tuple[Endpoint, Endpoint]:
    each = party(row)
    communicator = f"communicator {each.hash:x}"
    there = Endpoint(each.name, NO_PORT) if each.calls_all else Endpoint(communicator, each.peer)
    return Endpoint(communicator, each.rank), there


def _end(recording: Recording, row: np.void) -> Endpoint:
    raw, family = row["address"].tobytes(), int(row["family"])
    if family == layout.INFINIBAND:
        return Endpoint(str(IPv6Address(raw)) if any(raw) else f"lid{row['lid']}", int(row["qp"]))
    address = ip_address(raw[:4] if family == layout.INET else raw)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return Endpoint(f"{recording.host}/{address}" if address.is_loopback else str(address), int(row["port"]))


def _peer(
    opened: float, candidates: Sequence[Port] | None, remote: Endpoint, recorded: int, strangers: dict[Endpoint, int]
) -> int:
    """Ports are used again and descriptors inherited: of several ends the one that was opened nearest in time."""
    if not candidates:
        return strangers.setdefault(remote, recorded + len(strangers))
    after = bisect_left(candidates, (opened,))
    return min(candidates[max(after - 1, 0) : after + 1], key=lambda other: abs(other.opened - opened)).recording


def _opened(recording: Recording, channel: int) -> float:
    return recording.since_epoch(int(recording.channels["opened"][channel]))


def _mismatches(recordings: Sequence[Recording], ports: dict[tuple[Endpoint, Endpoint], list[Port]]) -> list[str]:
    """What one end sent and the other did not receive. One-sided operations are invisible at their target."""
    sums = [_sums(recording) for recording in recordings]
    found = []
    for (local, remote), here in ports.items():
        there = ports.get((remote, local), [])
        if not there or any(_is_partial(recordings[port.recording], port.channel) for port in [*here, *there]):
            continue
        sent = sum(int(sums[port.recording][0][port.channel]) for port in here)
        received = sum(int(sums[port.recording][1][port.channel]) for port in there)
        if abs(sent - received) > max(IN_FLIGHT, TOLERANCE * sent):
            found.append(f"{local} sent {sent:,} bytes to {remote}, which received {received:,}")
    return found


def _is_partial(recording: Recording, channel: int) -> bool:
    """Whether not all bytes that the channel carried are in records."""
    return bool(recording.dropped or int(recording.channels["flags"][channel]) & layout.GRPC)


def _sums(recording: Recording) -> tuple[layout.Ints, layout.Ints]:
    """Bytes sent and received on each TCP channel."""
    count = len(recording.channels)
    is_tcp = recording.channels["kind"][recording.records["channel"]] == layout.TCP
    good = recording.records[is_tcp & ((recording.records["flags"] & layout.ERROR) == 0)]
    totals = np.zeros((2, count), np.int64)
    for row, operation in enumerate((layout.SEND, layout.RECV)):
        part = good[good["operation"] == operation]
        np.add.at(totals[row], part["channel"], part["done"].astype(np.int64))
    return totals[0], totals[1]
