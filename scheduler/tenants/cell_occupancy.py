"""Keeps the cells of all virtual clusters (VCs) in step with snapshots.

What a snapshot shows of a job is one gang: guaranteed where its nodes have types of owned cells, else opportunistic. A job that
releases its GPUs has no guarantee any more. GPUs that no managed job holds and that are not free belong to one gang for each node,
which no job can preempt. Only what has changed since the last snapshot is deleted and allocated again.

A snapshot has numbers of GPUs and no indices. Where it has the numbers on each part of a node (`held_parts.py`), the GPUs of a gang
are any free ones of these parts, else any free ones of the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.tenants.held_parts import held_parts, part_of_gpu, unmanaged_parts
from tiresias.scheduler.topology_tree import Parts
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
from tiresias.scheduler.virtual_clusters.cell import OPPORTUNISTIC, PhysicalCell
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest, PodPlacement
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters

GUARANTEED = 0  # the priority of all guaranteed gangs: the order inside of a VC is its policy's
RELEASING, MOVABLE, COVERED, BLOCKED = 1, 64, 128, 4096  # how much a GPU in use is avoided, by its users
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


class CellOccupancy:
    """The gangs of the newest snapshot in their cells.

    Attributes:
        clusters: The VCs.
        shown: What the snapshot shows of each gang, by name.
        outdated: Whether the cells could not be left as the snapshot shows them: this object can follow no other one.
    """

    def __init__(self, spec: CellSpecification) -> None:
        """Start empty. Raises UsageError for an invalid specification."""
        self.clusters = VirtualClusters(spec)
        self.shown: dict[str, ShownGang] = {}
        self.outdated = False

    def follow(self, snapshot: Snapshot, cluster_of: Mapping[str, str]) -> None:
        """Hold what the snapshot shows. `cluster_of`: the VC of each job, by id. O(allocations + changed GPUs)."""
        self._follow_health(snapshot)
        shown = _shown_jobs(snapshot, cluster_of) | _shown_unmanaged(snapshot)
        for name, gang in list(self.shown.items()):
            if shown.get(name) != gang:
                self._delete(name, gang)
        new = [name for name in shown if name not in self.shown]
        for name in sorted(new, key=lambda each: (not shown[each].has_known_parts, not shown[each].guaranteed, each)):
            self._allocate(name, shown[name])
        for chain in self.clusters.cells.chains.values():
            chain.sort()

    def is_guaranteed(self, name: str) -> bool:
        """Return whether a gang holds cells of its VC."""
        group = self.clusters.groups.get(name)
        return group is not None and group.virtual is not None and self.shown[name].guaranteed

    def weigh(self, group: AffinityGroup, weight: int) -> None:
        """Avoid the GPUs of an opportunistic gang by so much more."""
        for leaf in group.leaves():
            self.clusters.cells.chains[leaf.chain.name].count_opportunistic(leaf, weight)

    def _follow_health(self, snapshot: Snapshot) -> None:
        names, bad = snapshot.nodes.name, self.clusters.cells.bad.nodes
        now = {names[row] for row in np.flatnonzero(~snapshot.nodes.usable).tolist()}
        for node in sorted(bad - now):
            self.clusters.node_healthy(node)
        for node in sorted(now - bad):
            self.clusters.node_bad(node)

    def _delete(self, name: str, gang: ShownGang) -> None:
        group = self.clusters.groups[name]
        if group.virtual is None:
            self.weigh(group, 1 - gang.weight)
        self.clusters.delete(name)
        del self.shown[name]

    def _allocate(self, name: str, gang: ShownGang) -> None:
        pods = [self._pod(share) for share in sorted(gang.held, key=lambda share: (share.gpus, share.node))]
        request = GangRequest(
            name,
            gang.cluster,
            GUARANTEED if gang.guaranteed else OPPORTUNISTIC,
            tuple((1, share.gpus) for share in gang.held),
        )
        group = self.clusters.gangs.allocate(BoundGang(request, self._chain(pods), tuple(pods)))
        self.shown[name] = gang
        if group.virtual is None or not gang.guaranteed:
            group.virtual = None
            self.weigh(group, gang.weight - 1)

    def _pod(self, share: ShownShare) -> PodPlacement:
        every = self.clusters.cells.physical.leaves.get(share.node, ())
        free = [leaf for leaf in every if leaf.user is None]
        leaves = _of_parts(free, len(every), share.parts)[: share.gpus]
        missing = range(-1, len(leaves) - share.gpus - 1, -1)  # indices that no GPU has
        indices = (*(leaf.leaf_index for leaf in leaves), *missing)
        return PodPlacement(share.node, indices, (share.cell,) * share.gpus)

    def _chain(self, pods: list[PodPlacement]) -> str:
        leaves: list[PhysicalCell] = self.clusters.cells.physical.leaves.get(pods[0].node, []) if pods else []
        return leaves[0].chain.name if leaves else next(iter(self.clusters.cells.levels))


def _of_parts(free: Sequence[PhysicalCell], gpus: int, parts: Parts) -> list[PhysicalCell]:
    """Return the free GPUs of a node of so many, those of the given parts first."""
    left, chosen, others = list(parts), list[PhysicalCell](), list[PhysicalCell]()
    for leaf in free if parts else ():
        at = part_of_gpu(leaf.leaf_index, gpus, len(parts))
        (chosen if left[at] > 0 else others).append(leaf)
        left[at] -= 1
    return chosen + others if parts else list(free)


def _shown_jobs(snapshot: Snapshot, cluster_of: Mapping[str, str]) -> dict[str, ShownGang]:
    jobs, held = snapshot.jobs, snapshot.allocations
    cells = held.owned_cell or ("",) * len(held.job)
    rows: dict[int, list[ShownShare]] = {}
    nodes, gpus = snapshot.nodes.name, held.resources["gpus"]
    columns = zip(held.job.tolist(), held.node.tolist(), gpus.tolist(), cells, held_parts(snapshot), strict=True)
    for job, node, count, cell, parts in columns:
        if count >= 1:
            rows.setdefault(job, []).append(ShownShare(nodes[node], round(count), cell, parts))
    return {jobs.id[row]: _shown(snapshot, row, cluster_of[jobs.id[row]], each) for row, each in rows.items()}


def _shown(snapshot: Snapshot, row: int, cluster: str, held: list[ShownShare]) -> ShownGang:
    state = int(snapshot.jobs.state[row])
    whole = state != JobState.RELEASING and all(share.cell for share in held)
    if not whole:
        held = [share._replace(cell="") for share in held]
    weight = MOVABLE if state == JobState.RUNNING and snapshot.jobs.movable[row] else BLOCKED
    return ShownGang(cluster, RELEASING if state == JobState.RELEASING else weight, tuple(held))


def _shown_unmanaged(snapshot: Snapshot) -> dict[str, ShownGang]:
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
