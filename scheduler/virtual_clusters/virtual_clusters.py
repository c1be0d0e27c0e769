"""HiveD's scheduling of gangs in virtual clusters (Zhao et al., OSDI 2020): the interface of the package.

Each VC owns cells of the topology. A guaranteed gang that fits into its VC's free cells is always bound, if necessary after the
preemption of opportunistic gangs; opportunistic gangs use what is idle. Everything here is deterministic: no clock, no file, no
random number.

    clusters = VirtualClusters(specification)
    decision = clusters.schedule(GangRequest("job1", "research", 0, ((2, 8),)))

`schedule` binds at once: a `BoundGang` holds its GPUs until `delete`. `PreemptGangs` reserves them: preempt the victims, `delete`
each of them once it has ended, and call `schedule` with the same request again.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup, GroupState
from tiresias.scheduler.virtual_clusters.bound_gangs import bound_gang, bound_placement, kept
from tiresias.scheduler.virtual_clusters.cell import (
    MAX_GUARANTEED,
    MIN_GUARANTEED,
    OPPORTUNISTIC,
    LeafState,
    PhysicalCell,
)
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.gang_cells import GangCells
from tiresias.scheduler.virtual_clusters.gang_requests import (
    BoundGang,
    CellDecision,
    GangRequest,
    PreemptGangs,
    Waiting,
)
from tiresias.scheduler.virtual_clusters.placement_search import FoundPlacement, search
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.scheduler.virtual_clusters.wait_reasons import WaitCode, WaitReason

_SEARCHES = 3


class VirtualClusters:
    """The virtual clusters of one cluster, with the gangs that hold cells.

    Attributes:
        cells: Physical and virtual cells.
        gangs: The gangs and their cells.
    """

    def __init__(self, spec: CellSpecification, cells: type[CellState] = CellState) -> None:
        """Build all cells; each node is healthy and no gang runs. Raises UsageError for an invalid specification."""
        self.cells = cells(spec)
        self.gangs = GangCells(self.cells)

    @property
    def groups(self) -> dict[str, AffinityGroup]:
        """The gangs that hold or reserve cells, by identifier."""
        return self.gangs.groups

    def schedule(
        self, request: GangRequest, suggested: Set[str] | None = None, *, preempt: bool = True
    ) -> CellDecision:
        """Decide on a gang, and hold or reserve its cells.

        Args:
            request: The gang. One that is bound already keeps its GPUs.
            suggested: Names of the nodes that may be used; None: all.
            preempt: Whether cells may be reserved; without it `PreemptGangs` has no effect.

        Raises:
            UsageError: The VC, its pinned cell or the GPU type does not exist, or a number is out of range.
        """
        group = self.groups.get(request.gang)
        if group is not None and group.state == GroupState.PREEMPTING:
            decision = self._continue_preemption(group, suggested, preempt)
            if decision is not None:
                return decision
        elif group is not None:
            return bound_gang(group)
        return self._schedule_new(request, suggested, preempt)

    def _continue_preemption(
        self, group: AffinityGroup, suggested: Set[str] | None, preempt: bool
    ) -> CellDecision | None:
        """Bind a preempting gang once its victims are deleted. None: its nodes can no longer be used, so that it is new again."""
        if preempt and not all(_may_use(leaf, suggested) for leaf in group.leaves()):
            self.gangs.cancel(group)
            return None
        victims = _victims(group.leaves())
        if victims:
            return _preemption(victims, group.leaves())
        self.gangs.finish_preemption(group)
        return bound_gang(group)

    def _schedule_new(self, request: GangRequest, suggested: Set[str] | None, preempt: bool) -> CellDecision:
        """Search and bind; once more if the cells that were found could not be reserved together."""
        chains = self._chains(request)
        for _ in range(_SEARCHES):
            found = search(self.gangs, request, chains, suggested)
            if isinstance(found, WaitReason):
                return Waiting(found)
            decision = self._take(request, found, preempt)
            if decision is not None:
                return decision
            for group, cells in found.preempted:
                self.gangs.revert(group, cells)
        return Waiting(WaitReason(WaitCode.NO_HARDWARE, cluster=request.cluster))

    def _take(self, request: GangRequest, found: FoundPlacement, preempt: bool) -> CellDecision | None:
        leaves = [leaf for pod in found.physical for leaf in pod]
        victims = _victims(leaves)
        if preempt:
            for group in _reservers(leaves):
                self.gangs.cancel(group)
            if victims and found.virtual is not None:
                reserved = self.gangs.reserve(request, found.physical, found.virtual)
                if reserved is None:
                    return None
        return _preemption(victims, leaves) if victims else self._bind(request, found)

    def _bind(self, request: GangRequest, found: FoundPlacement) -> BoundGang:
        bound = bound_placement(request, found.physical, found.virtual)
        self.gangs.allocate(bound)
        return bound

    def _chains(self, request: GangRequest) -> list[str]:
        """Return the chains in which to search. Raises UsageError for a request that no state could satisfy."""
        tree = self.cells.clusters.get(request.cluster)
        if tree is None:
            raise UsageError(f"gang {request.gang}: no virtual cluster {request.cluster}")
        _check_numbers(request)
        if request.pinned:
            if request.pinned not in tree.pinned:
                raise UsageError(
                    f"gang {request.gang}: virtual cluster {request.cluster} has no pinned cell {request.pinned}"
                )
            if not request.guaranteed:
                raise UsageError(f"gang {request.gang}: an opportunistic gang cannot use a pinned cell")
            return [tree.pinned[request.pinned].chain.name]
        return self._chains_of_type(request, tree.preassigned.keys())

    def _chains_of_type(self, request: GangRequest, owned: Set[str]) -> list[str]:
        by_type: dict[str, list[str]] = {}
        for name, chain in self.cells.levels.items():
            by_type.setdefault(chain.leaf_type, []).append(name)
        if request.leaf_type and request.leaf_type not in by_type:
            raise UsageError(
                f"gang {request.gang}: no GPUs of type {request.leaf_type}; there are {', '.join(by_type)}"
            )
        types = [request.leaf_type] if request.leaf_type else list(by_type)
        chains = [name for each in types for name in sorted(by_type[each], reverse=True)]
        if request.guaranteed:
            chains = [name for name in chains if name in owned]
        if request.leaf_type and not chains:
            raise UsageError(
                f"gang {request.gang}: virtual cluster {request.cluster} has no GPUs of type {request.leaf_type}"
            )
        return chains

    def delete(self, gang: str) -> bool:
        """Release the cells of a gang that has ended, or cancel its preemption; return whether it had any."""
        group = self.groups.get(gang)
        if group is None:
            return False
        if group.state == GroupState.PREEMPTING:
            self.gangs.cancel(group)
        else:
            self.gangs.delete(group)
        return True

    def recover(self, running: Iterable[BoundGang]) -> tuple[str, ...]:
        """Take over gangs that run already, after a restart. Higher priorities come first, whatever the order.

        Call it before `schedule`. Bad nodes may be known before or after.

        Returns:
            The gangs that lose their guarantee, because their VC has no cells for them any more, or that use GPUs which the
            specification does not have.

        Raises:
            UsageError: Two gangs have one identifier, or use one GPU; then no gang is taken over.
        """
        gangs = sorted(running, key=lambda bound: -bound.request.priority)
        self._check_running(gangs)
        bad = sorted(self.cells.bad.nodes)
        for node in bad:
            self.node_healthy(node)
        changed = tuple(bound.request.gang for bound in gangs if not kept(self.gangs.allocate(bound), bound))
        for node in bad:
            self.node_bad(node)
        return changed + tuple(name for name in self._lazily_preempted() if name not in changed)

    def _lazily_preempted(self) -> list[str]:
        return [name for name, group in self.groups.items() if group.lazily_preempted_by]

    def _check_running(self, running: Iterable[BoundGang]) -> None:
        names = set(self.groups)
        users = {id(leaf): name for name, group in self.groups.items() for leaf in group.leaves()}
        for bound in running:
            name = bound.request.gang
            if name in names:
                raise UsageError(f"gang {name} is there twice")
            names.add(name)
            for node, index in ((pod.node, index) for pod in bound.pods for index in pod.leaves):
                leaf = self.cells.physical.leaf(bound.chain, node, index)
                if leaf is not None and users.setdefault(id(leaf), name) != name:
                    raise UsageError(f"gang {name}: GPU {index} of node {node} is used by {users[id(leaf)]}")

    def reconfigure(self, spec: CellSpecification) -> None:
        """Use another specification from now on; all running gangs keep their GPUs and guarantees. Preemptions begin anew.

        Raises:
            UsageError: The specification is invalid, or takes a GPU or the guarantee from a running gang; then nothing changes.
        """
        other = VirtualClusters(spec)
        running = [group for group in self.groups.values() if group.state != GroupState.PREEMPTING]
        other.recover(map(bound_gang, running))
        for group in running:
            after = other.groups[group.name]
            if any(leaf is None for pod in after.physical for leaf in pod):
                raise UsageError(f"the new cells lack GPUs that gang {group.name} of {group.cluster} uses")
            if group.virtual is not None and after.virtual is None:
                raise UsageError(
                    f"virtual cluster {group.cluster} keeps too few cells for its running gang {group.name}"
                )
            after.lazily_preempted_by = group.lazily_preempted_by
        for node in sorted(self.cells.bad.nodes):
            other.node_bad(node)
        self.cells, self.gangs = other.cells, other.gangs

    def node_bad(self, node: str) -> None:
        """Avoid a node from now on. Gangs that use it keep it until they are deleted."""
        self.cells.bad.node_bad(node)

    def node_healthy(self, node: str) -> None:
        """Use a node again."""
        self.cells.bad.node_healthy(node)


def _check_numbers(request: GangRequest) -> None:
    if not OPPORTUNISTIC <= request.priority <= MAX_GUARANTEED:
        raise UsageError(
            f"gang {request.gang}: priority {request.priority}; give {MIN_GUARANTEED} to {MAX_GUARANTEED}, or {OPPORTUNISTIC}"
        )
    if not request.members or any(pods < 1 or leaves < 1 for pods, leaves in request.members):
        raise UsageError(f"gang {request.gang}: each kind of pod has one pod and one GPU at least")


def _may_use(leaf: PhysicalCell, suggested: Set[str] | None) -> bool:
    return leaf.healthy and (suggested is None or leaf.nodes[0] in suggested)


def _victims(leaves: Iterable[PhysicalCell]) -> tuple[str, ...]:
    """Return the gangs that use some of the GPUs."""
    busy = (LeafState.USED, LeafState.RESERVING)
    return tuple(dict.fromkeys(leaf.user.name for leaf in leaves if leaf.state in busy and leaf.user is not None))


def _reservers(leaves: Iterable[PhysicalCell]) -> list[AffinityGroup]:
    """Return the gangs that have reserved some of the GPUs."""
    return list(dict.fromkeys(leaf.reserver for leaf in leaves if leaf.reserver is not None))


def _preemption(victims: tuple[str, ...], leaves: Iterable[PhysicalCell]) -> PreemptGangs:
    return PreemptGangs(victims, tuple(dict.fromkeys(leaf.nodes[0] for leaf in leaves)))
