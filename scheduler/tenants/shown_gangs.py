"""What a snapshot shows of one gang, and how much its GPUs are avoided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Ints, Jobs, JobState, Snapshot
from tiresias.scheduler.tenants.held_parts import held_parts, unmanaged_parts
from tiresias.scheduler.topology_tree import Parts

# how much a GPU in use is avoided, by its users
RELEASING, MOVABLE, COVERED, PROTECTED, BLOCKED = 1, 64, 128, 256, 4096
_UNMANAGED = "\0"  # begins the names of gangs that are no jobs


class ShownShare(NamedTuple):
    """What a snapshot shows of a gang on one node.

    Attributes:
        node: Name of the node.
        gpus: Number of its GPUs.
        cell: Type of the owned cell; "" without a guarantee.
        parts: GPUs on each of the node's finest parts; (): not known.
    """

    node: str
    gpus: int
    cell: str
    parts: Parts = ()


@dataclass(frozen=True, slots=True)
class ShownGang:
    """What a snapshot shows of one gang.

    Attributes:
        cluster: Its VC.
        weight: How much its GPUs are avoided.
        held: What it holds on each node.
    """

    cluster: str
    weight: int
    held: tuple[ShownShare, ...]

    @property
    def guaranteed(self) -> bool:
        """Whether it holds cells of its VC."""
        return any(share.cell for share in self.held)

    @property
    def has_known_parts(self) -> bool:
        """Whether the parts of its nodes are known."""
        return all(share.parts for share in self.held)


def is_unmanaged(name: str) -> bool:
    """Return whether a gang stands for the unmanaged jobs of a node."""
    return name.startswith(_UNMANAGED)


def shown_gang(snapshot: Snapshot, row: int, cluster: str, allocations: Ints) -> ShownGang:
    """Return what is shown of a job. `allocations`: the rows of those with GPUs."""
    weight, held = _weight(snapshot.jobs, row), _shares(snapshot, allocations)
    whole = weight != RELEASING and all(share.cell for share in held)
    return ShownGang(cluster, weight, tuple(held if whole else [share._replace(cell="") for share in held]))


def _shares(snapshot: Snapshot, allocations: Ints) -> list[ShownShare]:
    """Return what some rows of the allocations show."""
    held, nodes = snapshot.allocations, snapshot.nodes.name
    gpus, cells = held.resources["gpus"][allocations].tolist(), held.owned_cell
    return [
        ShownShare(nodes[held.node[at]], round(count), cells[at] if cells else "", parts)
        for at, count, parts in zip(allocations.tolist(), gpus, held_parts(snapshot, allocations), strict=True)
    ]


def _weight(jobs: Jobs, row: int) -> int:
    """Return how much the GPUs of a job are avoided: more where no policy may preempt it, as its run may lose work."""
    state = int(jobs.state[row])
    if state == JobState.RELEASING:
        return RELEASING
    if state != JobState.RUNNING:
        return BLOCKED
    if jobs.movable[row]:
        return MOVABLE
    return PROTECTED if jobs.reclaimable is not None and jobs.reclaimable[row] else BLOCKED


def shown_unmanaged(snapshot: Snapshot) -> dict[str, ShownGang]:
    held, nodes = snapshot.allocations, snapshot.nodes
    managed = np.bincount(held.node, held.resources["gpus"], len(nodes))
    others = np.rint(nodes.gpus - nodes.free["gpus"] - managed).astype(np.int64)
    parts = unmanaged_parts(snapshot, others)
    return {
        _UNMANAGED + nodes.name[row]: ShownGang(
            "", BLOCKED, (ShownShare(nodes.name[row], int(others[row]), "", parts[row]),)
        )
        for row in np.flatnonzero((others > 0) & nodes.usable).tolist()  # no cell of another node is used in any case
    }
