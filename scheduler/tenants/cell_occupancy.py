"""Keeps the cells of all virtual clusters (VCs) in step with snapshots.

What a snapshot shows of a job is one gang: guaranteed where its nodes have types of owned cells, else opportunistic. A job that
releases its GPUs has no guarantee any more. GPUs that no managed job holds and that are not free belong to one gang for each node,
which no job can preempt. Only what has changed since the last snapshot is deleted and allocated again.

A snapshot has numbers of GPUs and no indices. Where it has the numbers on each part of a node (`held_parts.py`), the GPUs of a gang
are any free ones of these parts, else any free ones of the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from tiresias.scheduler.job_rows import JobRows
from tiresias.scheduler.model import Ints, Snapshot
from tiresias.scheduler.tenants.held_gangs import NO_GANGS, HeldGangs, HeldGangsReader
from tiresias.scheduler.tenants.held_parts import part_of_gpu
from tiresias.scheduler.tenants.shown_gangs import ShownGang, ShownShare, shown_gang, shown_unmanaged
from tiresias.scheduler.tenants.tenant_rules import JobTenants
from tiresias.scheduler.topology_tree import Parts
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
from tiresias.scheduler.virtual_clusters.cell import OPPORTUNISTIC, PhysicalCell, VirtualCell
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest, PodPlacement
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters

GUARANTEED = 0  # the priority of all guaranteed gangs: the order inside of a VC is its policy's
# How much a GPU of a node that is a last resort is avoided: a cell there is bound before a job is preempted for another one, on
# nodes of up to 31 GPUs.
FAILING = 2
HeldCells = tuple[tuple[int, ...], tuple[int, ...]]  # the places of the virtual nodes of a gang, and its GPUs on each


class CellOccupancy:
    """The gangs of the newest snapshot in their cells.

    Attributes:
        clusters: The VCs.
        shown: What the snapshot shows of each gang, by name.
        outdated: Whether the cells could not be left as the snapshot shows them: this object can follow no other one.
        places: For each VC the places of its virtual nodes among them.
        held: The cells of the guaranteed gangs of each VC, by name.
        changed: The rows of the jobs with GPUs that hold or show something else than in the snapshot before.
        changes: For each VC how often these have changed.
        health_changes: How often nodes have become bad or healthy.
    """

    def __init__(self, spec: CellSpecification, rows: JobRows | None = None) -> None:
        """Start empty. `rows`: the rows of the jobs, which follow the snapshots. Raises UsageError for an invalid specification."""
        self._rows = rows or JobRows()
        self.clusters = VirtualClusters(spec)
        self.shown: dict[str, ShownGang] = {}
        self.outdated = False
        self._number: dict[str, int] = {}  # of each shown gang, in the order in which they were allocated
        self._numbers = count()
        self.places = {name: tree.places() for name, tree in self.clusters.cells.clusters.items()}
        self.held: dict[str, dict[str, HeldCells]] = {name: {} for name in spec.virtual_clusters}
        self.changes = dict.fromkeys(self.held, 0)
        self.health_changes = 0
        self.changed: Ints = np.empty(0, np.int64)
        self._reader, self._before = HeldGangsReader(), NO_GANGS
        self._lost: set[str] = set()
        self._lazy_preemptions = 0  # those that `_find_lost` has seen
        self._unmanaged: set[str] = set()
        self._failing: frozenset[str] = frozenset()  # names of the nodes that are a last resort

    def follow(self, snapshot: Snapshot, of_jobs: JobTenants) -> None:
        """Hold what the snapshot shows. `of_jobs`: the VC of each job. O(jobs with GPUs + changed GPUs), the former in numpy.

        Nodes that have become bad are the last change: a job that runs holds its cells whatever is bad, also after a restart.
        """
        self._rows.follow(snapshot.jobs.id)
        gangs = self._reader.read(snapshot, of_jobs.names, of_jobs.of)
        changed = self._changed_jobs(snapshot, of_jobs, gangs) | self._changed_unmanaged(snapshot)
        self._before = gangs
        names = snapshot.nodes.name
        bad = {names[row] for row in np.flatnonzero(~snapshot.nodes.usable).tolist()}
        healthy, new = (
            sorted(each) for each in (self.clusters.cells.bad.nodes - bad, bad - self.clusters.cells.bad.nodes)
        )
        for node in healthy:
            self.clusters.node_healthy(node)
        if changed or healthy:
            self._replace(changed)
        for node in new:
            self.clusters.node_bad(node)
        self.health_changes += bool(new or healthy)
        self._avoid_failing(snapshot)

    def sort(self) -> None:
        """Order the free cells, so that no earlier change decides between equally good ones."""
        for chain in self.clusters.cells.chains.values():
            chain.sort()

    def _avoid_failing(self, snapshot: Snapshot) -> None:
        """Avoid the GPUs of nodes that are a last resort. This decides between free cells that suit equally, and no cell is bad."""
        names, avoided = snapshot.nodes.name, snapshot.nodes.last_resort
        rows = [] if avoided is None else np.flatnonzero(avoided).tolist()
        before, self._failing = self._failing, frozenset(names[row] for row in rows)
        for node in before ^ self._failing:
            leaves = self.clusters.cells.physical.leaves.get(node, ())
            for chain in dict.fromkeys(leaf.chain.name for leaf in leaves):
                weight = FAILING if node in self._failing else -FAILING
                self.clusters.cells.chains[chain].weigh([leaf for leaf in leaves if leaf.chain.name == chain], weight)

    def _changed_jobs(self, snapshot: Snapshot, of_jobs: JobTenants, gangs: HeldGangs) -> dict[str, ShownGang | None]:
        """Return what is shown of the jobs of which something else was shown before; None: nothing."""
        found: dict[str, ShownGang | None] = {}
        is_changed, gone = gangs.changed(self._before, self._rows)
        found |= dict.fromkeys(map(self._before.id, gone.tolist()))
        self.changed = gangs.rows[is_changed]
        for at, row in zip(np.flatnonzero(is_changed).tolist(), self.changed.tolist(), strict=True):
            found[gangs.id(at)] = shown_gang(snapshot, row, of_jobs.name(row), gangs.allocations(at))
        return {name: gang for name, gang in found.items() if self.shown.get(name) != gang}

    def _changed_unmanaged(self, snapshot: Snapshot) -> dict[str, ShownGang | None]:
        shown = shown_unmanaged(snapshot)
        gone = [name for name in self._unmanaged if name not in shown]
        self._unmanaged = set(shown)
        return dict.fromkeys(gone) | {name: gang for name, gang in shown.items() if self.shown.get(name) != gang}

    def _replace(self, changed: Mapping[str, ShownGang | None]) -> None:
        """Delete the changed gangs, in the order in which they were allocated, and allocate what is shown of them now."""
        for name in sorted(changed.keys() & self._number.keys(), key=self._number.__getitem__):
            self._delete(name, self.shown[name])
        new = [(name, gang) for name, gang in changed.items() if gang is not None]
        for name, gang in sorted(new, key=lambda each: (not each[1].has_known_parts, not each[1].guaranteed, each[0])):
            self._allocate(name, gang)
        if self._lazy_preemptions != self.clusters.gangs.lazy_preemptions:
            self._lazy_preemptions = self.clusters.gangs.lazy_preemptions
            self._find_lost()

    def _find_lost(self) -> None:
        """Find the gangs that have lost their cells to other ones."""
        groups = self.clusters.groups
        for cluster, held in self.held.items():
            for name in [name for name in held if groups[name].virtual is None]:
                self._lose(cluster, name)
                self._lost.add(name)

    def _lose(self, cluster: str, name: str) -> None:
        del self.held[cluster][name]
        self.changes[cluster] += 1

    @property
    def rows_with_gpus(self) -> Ints:
        """The rows of the jobs with GPUs in the newest snapshot."""
        return self._before.rows

    def is_guaranteed(self, name: str) -> bool:
        """Return whether a gang holds cells of its VC."""
        gang = self.shown.get(name)
        return gang is not None and name in self.held.get(gang.cluster, ())

    def lost(self) -> list[str]:
        """Return the gangs of which the snapshot shows cells that their VC does not have any more."""
        return [name for name in self.shown if name in self._lost] if self._lost else []

    def weigh(self, group: AffinityGroup, weight: int) -> None:
        """Avoid the GPUs of an opportunistic gang by so much more."""
        leaves = group.leaves()
        for chain in {leaf.chain.name: None for leaf in leaves} if weight else ():
            self.clusters.cells.chains[chain].weigh([leaf for leaf in leaves if leaf.chain.name == chain], weight)

    def _delete(self, name: str, gang: ShownGang) -> None:
        group = self.clusters.groups[name]
        if group.virtual is None:
            self.weigh(group, 1 - gang.weight)
        self.clusters.delete(name)
        del self.shown[name], self._number[name]
        self._lost.discard(name)
        if name in self.held.get(gang.cluster, ()):
            self._lose(gang.cluster, name)

    def _allocate(self, name: str, gang: ShownGang) -> None:
        pods = [self._pod(share) for share in sorted(gang.held, key=lambda share: (share.gpus, share.node))]
        request = GangRequest(
            name,
            gang.cluster,
            GUARANTEED if gang.guaranteed else OPPORTUNISTIC,
            tuple((1, share.gpus) for share in gang.held),
        )
        group = self.clusters.gangs.allocate(BoundGang(request, self._chain(pods), tuple(pods)))
        self.shown[name], self._number[name] = gang, next(self._numbers)
        if group.virtual is None or not gang.guaranteed:
            group.virtual = None
            self.weigh(group, gang.weight - 1)
            if gang.guaranteed:
                self._lost.add(name)
        else:
            gpus, places = held_by(group), self.places[gang.cluster]
            self.held[gang.cluster][name] = tuple(map(places.__getitem__, gpus)), tuple(gpus.values())
            self.changes[gang.cluster] += 1

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


def held_by(group: AffinityGroup) -> Counter[VirtualCell]:
    """Return the GPUs that a gang holds on each of its virtual nodes. Those of a pod are on one node, maybe in several parts."""
    return Counter(leaf.host for pod in group.virtual or () for leaf in pod if leaf is not None)
