"""Keeps the cells of all virtual clusters (VCs) in step with snapshots.

What a snapshot shows of a job is one gang: guaranteed where its nodes have types of owned cells, else opportunistic. A job that
releases its GPUs has no guarantee any more. GPUs that no managed job holds and that are not free belong to one gang for each node,
which no job can preempt. Only what has changed since the last snapshot is deleted and allocated again.

A snapshot has numbers of GPUs and no indices, so the GPUs of a gang are any free ones of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.model import Jobs, JobState, Snapshot
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
from tiresias.scheduler.virtual_clusters.cell import OPPORTUNISTIC, PhysicalCell
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest, PodPlacement
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters

GUARANTEED = 0  # the priority of all guaranteed gangs: the order inside of a VC is its policy's
RELEASING, MOVABLE, COVERED, PROTECTED, BLOCKED = (
    1,
    64,
    128,
    256,
    4096,
)  # how much a GPU in use is avoided, by its users
_UNMANAGED = "\0"  # begins the names of gangs that are no jobs


@dataclass(frozen=True, slots=True)
class ShownGang:
    """What a snapshot shows of one gang.

    Attributes:
        cluster: Its VC.
        weight: How much its GPUs are avoided.
        held: Node, GPUs and type of the owned cell of each allocation; the type is "" without a guarantee.
    """

    cluster: str
    weight: int
    held: tuple[tuple[str, int, str], ...]

    @property
    def guaranteed(self) -> bool:
        """Whether it holds cells of its VC."""
        return any(cell for _, _, cell in self.held)


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
        for name in sorted(new, key=lambda each: (not shown[each].guaranteed, each)):
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
        pods = [self._pod(*each) for each in sorted(gang.held, key=lambda each: (each[1], each[0]))]
        request = GangRequest(
            name,
            gang.cluster,
            GUARANTEED if gang.guaranteed else OPPORTUNISTIC,
            tuple((1, gpus) for _, gpus, _ in gang.held),
        )
        group = self.clusters.gangs.allocate(BoundGang(request, self._chain(pods), tuple(pods)))
        self.shown[name] = gang
        if group.virtual is None or not gang.guaranteed:
            group.virtual = None
            self.weigh(group, gang.weight - 1)

    def _pod(self, node: str, gpus: int, cell: str) -> PodPlacement:
        leaves = [leaf for leaf in self.clusters.cells.physical.leaves.get(node, ()) if leaf.user is None][:gpus]
        missing = range(-1, len(leaves) - gpus - 1, -1)  # indices that no GPU has
        indices = (*(leaf.leaf_index for leaf in leaves), *missing)
        return PodPlacement(node, indices, (cell,) * gpus)

    def _chain(self, pods: list[PodPlacement]) -> str:
        leaves: list[PhysicalCell] = self.clusters.cells.physical.leaves.get(pods[0].node, []) if pods else []
        return leaves[0].chain.name if leaves else next(iter(self.clusters.cells.levels))


def _shown_jobs(snapshot: Snapshot, cluster_of: Mapping[str, str]) -> dict[str, ShownGang]:
    jobs, held = snapshot.jobs, snapshot.allocations
    cells = held.owned_cell or ("",) * len(held.job)
    rows: dict[int, list[tuple[str, int, str]]] = {}
    nodes, gpus = snapshot.nodes.name, held.resources["gpus"]
    for job, node, count, cell in zip(held.job.tolist(), held.node.tolist(), gpus.tolist(), cells, strict=True):
        if count >= 1:
            rows.setdefault(job, []).append((nodes[node], round(count), cell))
    return {jobs.id[row]: _shown(snapshot, row, cluster_of[jobs.id[row]], each) for row, each in rows.items()}


def _shown(snapshot: Snapshot, row: int, cluster: str, held: list[tuple[str, int, str]]) -> ShownGang:
    state = int(snapshot.jobs.state[row])
    whole = state != JobState.RELEASING and all(cell for _, _, cell in held)
    if not whole:
        held = [(node, gpus, "") for node, gpus, _ in held]
    return ShownGang(cluster, _weight(snapshot.jobs, row), tuple(held))


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


def _shown_unmanaged(snapshot: Snapshot) -> dict[str, ShownGang]:
    held, nodes = snapshot.allocations, snapshot.nodes
    managed = np.bincount(held.node, held.resources["gpus"], len(nodes))
    others = np.rint(nodes.gpus - nodes.free["gpus"] - managed).astype(np.int64)
    return {
        _UNMANAGED + nodes.name[row]: ShownGang("", BLOCKED, ((nodes.name[row], int(others[row]), ""),))
        for row in np.flatnonzero((others > 0) & nodes.usable).tolist()  # no cell of another node is used in any case
    }
