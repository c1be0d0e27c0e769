"""The communication pattern of a job: parameter servers, or an all-reduce along a ring, a tree or a mesh.

Only the graph and the bytes are used, so the result does not depend on the framework. Of n processes all of these algorithms
send 2 (n - 1) models in an iteration, together: a ring 2 (n - 1) / n by each, a tree one over each edge, both ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tiresias.profiler.iteration.buckets import CONTROL, buckets
from tiresias.profiler.iteration.contents import Contents

LIGHT = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.05)  # shares of an iteration's bytes below which streams may be something else
ANSWER = 0.2  # of what it answers: the least; less only acknowledges
ALIKE = 0.05  # what the workers of a server send to it differs by less
STEPS = 50  # sizes from one power of two to the next that are distinguished
SMALL = 0.05  # of the model: buckets whose limit is no more show tensors
EVEN = 0.02  # processes that send the same amount differ by no more
SERVERS, RING, TREE, MESH, UNKNOWN = (
    "parameter servers",
    "ring all-reduce",
    "tree all-reduce",
    "mesh all-reduce",
    "unknown",
)

Edges = dict[tuple[int, int], Contents]


@dataclass(frozen=True)
class ParameterServer:
    """A parameter server and its part of the model."""

    node: int
    bytes: float  # its part of the model
    largest: float  # tensor
    messages: int  # that its part takes

    @property
    def skew(self) -> float:
        """The share of its largest tensor in the bytes of this server (section 3.3 of the paper)."""
        return self.largest / self.bytes


@dataclass(frozen=True)
class TrafficShape:
    """How the processes of a job exchange the model."""

    kind: str
    workers: int  # processes that train; 0 if unknown
    model: float  # bytes
    servers: tuple[ParameterServer, ...] = ()
    largest: float = 0.0  # bytes of the largest tensor; 0: cannot be seen

    @property
    def shows_tensors(self) -> bool:
        """Frameworks send a tensor a message to a server; for an all-reduce they join tensors to buckets, often large ones."""
        return self.largest > 0


def shape(streams: Sequence[Contents]) -> TrafficShape:
    """Detect the pattern from the heaviest streams that form one: light streams may only coordinate, log, or read data.

    A mesh is what remains when leaving out light ones shows nothing else: a ring whose messages are acknowledged is even too.
    """
    graphs = [_heavier(streams, least) for least in LIGHT]
    for edges in graphs:
        for attempt, some in ((_servers, _mutual(edges)), (_ring, edges), (_tree, _mutual(edges))):
            if some and (found := attempt(some, _nodes(some))):
                return found
    meshes = (_mesh(edges, _nodes(edges)) for edges in graphs if edges)
    return next((found for found in meshes if found), TrafficShape(UNKNOWN, 0, 0.0))


def _heavier(streams: Sequence[Contents], least: float) -> Edges:
    total = sum(each.bytes for each in streams)
    return {(each.sender, each.receiver): each for each in streams if each.bytes > least * total}


def _mutual(edges: Edges) -> Edges:
    """Those that are answered in kind, if they are most of the traffic: servers and trees answer all."""
    back = {(a, b): edges[b, a].bytes if (b, a) in edges else 0.0 for a, b in edges}
    answered = {
        way: each for way, each in edges.items() if min(each.bytes, back[way]) > ANSWER * max(each.bytes, back[way])
    }
    most = sum(each.bytes for each in answered.values()) > sum(each.bytes for each in edges.values()) / 2
    return answered if most else {}


def _nodes(edges: Edges) -> list[int]:
    return sorted({node for edge in edges for node in edge})


def _servers(edges: Edges, nodes: Sequence[int]) -> TrafficShape | None:
    """Each worker exchanges data with each server, in both directions, and with no other process."""
    sides = _two_sides(edges, nodes)
    if sides is None:
        return None
    first, second = sides
    if _is_even(edges, nodes) and _is_paired(edges):
        return None  # an all-reduce of two, or of four: each segment goes to and fro
    workers, servers = (
        (first, second) if _unlike(edges, first, second) <= _unlike(edges, second, first) else (second, first)
    )
    found = tuple(_server(edges, server, workers) for server in servers)
    largest = max(each.largest for each in found)
    return TrafficShape(SERVERS, len(workers), sum(each.bytes for each in found), found, largest)


def _two_sides(edges: Edges, nodes: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """The halves of a complete bipartite graph; the larger one first."""
    neighbours = {node: {b for a, b in edges if a == node} for node in nodes}
    second = sorted(neighbours[nodes[0]])
    first = [node for node in nodes if node not in second]
    whole = all(neighbours[node] == set(second) for node in first) and all(neighbours[n] == set(first) for n in second)
    return (first, second) if whole and len(first) >= len(second) else (second, first) if whole else None


def _unlike(edges: Edges, workers: Sequence[int], servers: Sequence[int]) -> float:
    """Share of bytes by which a server's workers differ in what they send to it: nothing, if they are its workers."""
    apart = whole = 0.0
    for server in servers:
        sent = [edges[worker, server] for worker in workers]
        for one, other in pairwise(sent):
            apart, whole = apart + _apart(one, other), whole + one.bytes + other.bytes
    return apart / whole if whole else ALIKE  # one worker: nothing to compare


def _apart(one: Contents, other: Contents) -> float:
    """Bytes of messages that are in one only."""
    left, right = (_multiset(each) for each in (one, other))
    return float(sum(2 ** (size / STEPS) * count for size, count in ((left - right) + (right - left)).items()))


def _multiset(each: Contents) -> Counter[int]:
    """How many messages of each size, a little rounded: one header differs from another."""
    return Counter(
        dict(zip(np.round(STEPS * np.log2(each.sizes)).astype(int).tolist(), each.counts.tolist(), strict=True))
    )


def _server(edges: Edges, server: int, workers: Sequence[int]) -> ParameterServer:
    """From the median worker; what it gets is its server's part of the model."""
    pulls = sorted((edges[server, worker] for worker in workers), key=lambda each: each.bytes)
    middle = pulls[len(pulls) // 2]
    return ParameterServer(server, middle.bytes, middle.largest, int(middle.counts.sum()))


def _ring(edges: Edges, nodes: Sequence[int]) -> TrafficShape | None:
    following = dict(edges.keys())
    if len(edges) != len(nodes) or len(following) != len(nodes) or len(set(following.values())) != len(nodes):
        return None
    if not (_connected(edges, nodes) and _is_even(edges, nodes)):
        return None
    return _with_tensors(_all_reduce(RING, edges, nodes), edges)


def _with_tensors(ring: TrafficShape, edges: Edges) -> TrafficShape:
    """Where buckets are so small that the largest is little more than a tensor."""
    found = [buckets(each, ring.workers) for each in edges.values()]
    middle = sorted(found)[len(found) // 2]
    return replace(ring, largest=middle.largest) if middle.limit <= SMALL * ring.model else ring


def _tree(edges: Edges, nodes: Sequence[int]) -> TrafficShape | None:
    if len(edges) != 2 * (len(nodes) - 1) or not _connected(edges, nodes):
        return None
    return _all_reduce(TREE, edges, nodes)


def _connected(edges: Edges, nodes: Sequence[int]) -> bool:
    reached, new = {nodes[0]}, {nodes[0]}
    while new:
        new = {b for a, b in edges if a in new} - reached
        reached |= new
    return len(reached) == len(nodes)


def _mesh(edges: Edges, nodes: Sequence[int]) -> TrafficShape | None:
    """All send the same amount, to whomever: recursive halving, or everyone to everyone."""
    return _all_reduce(MESH, edges, nodes) if _is_even(edges, nodes) else None


def _is_even(edges: Edges, nodes: Sequence[int]) -> bool:
    sent = [sum(each.bytes for each in edges.values() if each.sender == node) for node in nodes]
    return max(sent) - min(sent) <= EVEN * max(sent)


def _is_paired(edges: Edges) -> bool:
    """Whether (nearly all) messages come an even number of times."""
    odd = sum(float(each.sizes @ (each.counts % 2)) for each in edges.values())
    return odd <= EVEN * sum(each.bytes for each in edges.values())


def _all_reduce(kind: str, edges: Edges, nodes: Sequence[int]) -> TrafficShape:
    carried = sum(float((each.sizes * each.counts)[each.sizes > CONTROL].sum()) for each in edges.values())
    return TrafficShape(kind, len(nodes), carried / (2 * (len(nodes) - 1)))
