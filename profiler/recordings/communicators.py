"""Communicators: the groups of ranks that call collectives together, as the channels of recordings name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.recording import Recording

NAMES = {
    layout.ALL_REDUCE: "all-reduce",
    layout.ALL_GATHER: "all-gather",
    layout.REDUCE_SCATTER: "reduce-scatter",
    layout.BROADCAST: "broadcast",
    layout.REDUCE: "reduce",
    layout.ALL_TO_ALL: "all-to-all",
}
UNNAMED = "collective"


class Party(NamedTuple):
    """The parties of a channel: a rank of a communicator, and its function or the rank at the other end."""

    hash: int
    ranks: int  # 0 where not known, as are nodes
    nodes: int
    rank: int
    function: int
    peer: int

    @property
    def calls_all(self) -> bool:
        """Whether the other end is the whole communicator."""
        return self.peer == layout.ALL_RANKS

    @property
    def name(self) -> str:
        """The function and the communicator, for output."""
        return f"{NAMES.get(self.function, UNNAMED)} {self.hash:x}"


class CommunicatorGroup(NamedTuple):
    """One function of one communicator."""

    function: int
    hash: int
    ranks: int
    nodes: int

    @property
    def factor(self) -> float:
        """Bytes over each link of a ring through all ranks, one way, for a byte that a rank gives to the call. Rings
        enter and leave a node once, so that it holds for the link of a node with several ranks, too."""
        others = self.ranks - 1
        if self.function == layout.ALL_REDUCE:
            return 2 * others / self.ranks
        if self.function in (layout.ALL_GATHER, layout.REDUCE_SCATTER, layout.ALL_TO_ALL):
            return float(others)  # a rank gives one part of as many as there are ranks
        return float(min(others, 1))

    @property
    def reduces(self) -> int:
        """Bytes of the model for a byte that a rank gives to the call: gradients are what is reduced."""
        factors = {layout.ALL_REDUCE: 1, layout.REDUCE: 1, layout.REDUCE_SCATTER: self.ranks}
        return factors.get(self.function, 0)


def party(channel: np.void) -> Party:
    """Of a channel of kind COLLECTIVE."""
    local, remote = channel["local"], channel["remote"]
    group = np.frombuffer(remote["address"].tobytes(), layout.GROUP)[0]
    return Party(
        int(group["hash"]),
        int(group["ranks"]),
        int(group["nodes"]),
        int(local["qp"]),
        int(remote["port"]),
        int(remote["qp"]),
    )


def groups(recordings: Sequence[Recording], peers: Sequence[Sequence[int]]) -> dict[int, CommunicatorGroup]:
    """By the node that stands for them: `peers[recording][channel]`, as in Joined."""
    sizes = _sizes(recordings)
    found = {}
    for number, index, each in _parties(recordings):
        if each.calls_all:
            found[peers[number][index]] = CommunicatorGroup(each.function, each.hash, *sizes[each.hash])
    return found


def _sizes(recordings: Sequence[Recording]) -> Mapping[int, tuple[int, int]]:
    """Ranks and nodes of each communicator: as many as were announced, at least those that were recorded."""
    ranks: dict[int, int] = {}
    nodes: dict[int, int] = {}
    hosts: dict[int, set[str]] = {}
    for number, _, each in _parties(recordings):
        hosts.setdefault(each.hash, set()).add(recordings[number].host)
        ranks[each.hash] = max(ranks.get(each.hash, 1), each.ranks, each.rank + 1)
        nodes[each.hash] = max(nodes.get(each.hash, 1), each.nodes, len(hosts[each.hash]))
    return {key: (ranks[key], nodes[key]) for key in ranks}


def _parties(recordings: Sequence[Recording]) -> Iterator[tuple[int, int, Party]]:
    for number, recording in enumerate(recordings):
        for index in np.flatnonzero(recording.channels["kind"] == layout.COLLECTIVE).tolist():
            yield number, index, party(recording.channels[index])
