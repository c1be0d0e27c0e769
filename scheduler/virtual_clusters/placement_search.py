"""The search for the GPUs of a gang: in the cells of its VC, which are then bound to hardware, or on any idle GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup, VirtualPods
from tiresias.scheduler.virtual_clusters.binding_paths import BindingPaths, Bindings, binding_paths
from tiresias.scheduler.virtual_clusters.buddy_allocation import NO_LIMITS, BindingSearch, OnlyNodes
from tiresias.scheduler.virtual_clusters.cell import (
    MIN_GUARANTEED,
    OPPORTUNISTIC,
    Cell,
    LeafPairs,
    LeafState,
    PhysicalCell,
    VirtualCell,
)
from tiresias.scheduler.virtual_clusters.gang_cells import GangCells
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest
from tiresias.scheduler.virtual_clusters.leaf_choice import chosen_leaves
from tiresias.scheduler.virtual_clusters.node_view import NodeView
from tiresias.scheduler.virtual_clusters.wait_reasons import WaitCode, WaitReason


@dataclass(frozen=True)
class FoundPlacement:
    """GPUs for a gang.

    Attributes:
        physical: The leaves of each pod, in the order of the request's sizes.
        virtual: The virtual leaves; None without a guarantee.
        preempted: The gangs that are preempted lazily for it, with the virtual cells that they had.
    """

    physical: list[list[PhysicalCell]]
    virtual: list[list[VirtualCell]] | None
    preempted: Sequence[tuple[AffinityGroup, VirtualPods]] = ()

    def leaves(self) -> LeafPairs:
        """Return the physical leaves of a guaranteed gang with the virtual ones."""
        pods = zip(self.physical, self.virtual or (), strict=True)
        return [pair for physical, virtual in pods for pair in zip(physical, virtual, strict=True)]


def search(
    gangs: GangCells, request: GangRequest, chains: Iterable[str], suggested: Set[str] | None
) -> FoundPlacement | WaitReason:
    """Search the pinned cell, or the chains in turn.

    A guaranteed gang that finds its cells preempts lazily the gangs that use them and permit it, also where others remain to be
    preempted.
    """
    reason = WaitReason(WaitCode.NO_CHAIN, cluster=request.cluster if request.guaranteed else "")
    for chain in chains:
        found = (
            _guaranteed(gangs, request, chain, suggested)
            if request.guaranteed
            else _idle(gangs, request, chain, suggested)
        )
        if isinstance(found, FoundPlacement):
            return found
        reason = found
    return reason


def _idle(
    gangs: GangCells, request: GangRequest, chain: str, suggested: Set[str] | None
) -> FoundPlacement | WaitReason:
    view = gangs.cells.chains[chain].view
    chosen = view.choose(request.sizes, OPPORTUNISTIC, suggested)
    if chosen.reason is not None:
        return chosen.reason
    return FoundPlacement(_physical(chosen_leaves(view, chosen.rows, request.sizes, OPPORTUNISTIC)), None)


def _guaranteed(
    gangs: GangCells, request: GangRequest, chain: str, suggested: Set[str] | None
) -> FoundPlacement | WaitReason:
    virtual = _in_cluster(gangs, request, chain, suggested)
    if isinstance(virtual, WaitReason):
        return virtual._replace(cluster=request.cluster)
    preempted = _preempt_lazily(gangs, virtual, request.gang)
    bindings = _bindings(gangs, chain, binding_paths(virtual), suggested)
    if bindings is not None:
        return FoundPlacement([[bindings[leaf] for leaf in pod] for pod in virtual], virtual, preempted)
    for group, cells in preempted:
        gangs.revert(group, cells)
    return WaitReason(WaitCode.NO_HARDWARE, cluster=request.cluster)


class ChosenSearch:
    """The search for the hardware of chosen virtual leaves, of several chains too. It changes nothing and can be repeated.

    Attributes:
        takes_cells: Whether a binding takes free cells, as no gang uses some of the preassigned ones, or hardware is so bad that it
            may change which cells are doomed. Any other binding leaves all cells as they were once it is cancelled.
        is_inside: Whether each cell above the leaves is bound already, and the preassigned one is in use: GPUs are found on the
            nodes to which they are bound, and a binding changes no cell above them.

    Args:
        gangs: The gangs and their cells.
        virtual: The virtual leaves of each pod.
        suggested: Names of allowed nodes; None: all.
        refused: Physical leaves that may not be used.
        only: For virtual cells that may be bound to some nodes only: the names of these.
        also: Virtual leaves for which there has to be hardware as well. They are not bound.
    """

    def __init__(
        self,
        gangs: GangCells,
        virtual: list[list[VirtualCell]],
        suggested: Set[str] | None,
        refused: Set[PhysicalCell] = frozenset(),
        only: OnlyNodes = NO_LIMITS,
        also: Sequence[VirtualCell] = (),
    ) -> None:
        self._gangs, self._virtual, self._limits = gangs, virtual, (suggested, refused, only)
        self._also = also
        self._chains = tuple(dict.fromkeys(pod[0].chain.name for pod in virtual))
        unused = any(pod[0].preassigned.priority < MIN_GUARANTEED for pod in virtual)  # each pod is in one cell
        self.takes_cells = unused or not all(gangs.cells.chains[chain].is_safe for chain in self._chains)
        self.is_inside = not self.takes_cells and all(_is_below_bound(leaf) for pod in virtual for leaf in pod)
        self._paths: dict[str, BindingPaths] = {}

    def run(self) -> FoundPlacement | None:
        """Return the physical cells; None: the suggested nodes have none."""
        found: Bindings = {}
        for chain in self._chains:
            every = [*([leaf] for leaf in self._also), *self._virtual]
            paths = binding_paths(pod for pod in every if pod[0].chain.name == chain)
            self._paths[chain] = paths
            bindings = _bindings(self._gangs, chain, paths, *self._limits, one_by_one=True)
            if bindings is None:
                return None
            found |= bindings
        return FoundPlacement([[found[leaf] for leaf in pod] for pod in self._virtual], self._virtual)

    def most_gpus_first(self) -> ChosenSearch | None:
        """Return a search in which the pods with the most leaves choose first; None where that is the order already."""
        pods = sorted(self._virtual, key=len, reverse=True)
        return None if pods == self._virtual else ChosenSearch(self._gangs, pods, *self._limits, self._also)

    def compares(self, leaf: PhysicalCell) -> bool:
        """Return whether the use of a GPU by opportunistic jobs can change what `run` has found. O(levels)."""
        paths = self._paths.get(leaf.chain.name)
        if paths is None:
            return False
        cell = leaf.parent
        while cell is not None and cell not in paths.hosts:
            cell = cell.parent
        return cell is not None


def _is_below_bound(leaf: VirtualCell) -> bool:
    return leaf.physical is None and leaf.parent is not None and leaf.parent.physical is not None


def _bindings(
    gangs: GangCells,
    chain: str,
    paths: BindingPaths,
    suggested: Set[str] | None,
    refused: Set[PhysicalCell] = frozenset(),
    only: OnlyNodes = NO_LIMITS,
    *,
    one_by_one: bool = False,
) -> Bindings | None:
    """Search for physical cells.

    Further splits for bad hardware can take cells that other VCs own. A gang that starts at once is then preempted lazily. One that
    is to reserve cells is searched for once more, cell by cell.

    `one_by_one`: whether it is also searched once more where nothing is found. Further splits split the first free cells, also
    those without a suggested node, and the published method searches no further.
    """
    found = _search_for(gangs, chain, paths, suggested, refused, only, one_by_one=False)
    if (one_by_one and found is None) or (found and not _may_be_taken(gangs, chain, found)):
        found = _search_for(gangs, chain, paths, suggested, refused, only, one_by_one=True)
    return found.bindings if found and _may_be_taken(gangs, chain, found) else None


def _search_for(
    gangs: GangCells,
    chain: str,
    paths: BindingPaths,
    suggested: Set[str] | None,
    refused: Set[PhysicalCell],
    only: OnlyNodes,
    *,
    one_by_one: bool,
) -> BindingSearch | None:
    state = gangs.cells.chains[chain]
    owned = list(state.all_owned_free)
    found = BindingSearch(state.chain, state.draft(), owned, suggested, dict(paths.bindings), one_by_one, refused, only)
    return found if found.run(paths) else None


def _may_be_taken(gangs: GangCells, chain: str, found: BindingSearch) -> bool:
    if not found.split_further or not gangs.cells.keeps_guarantees:
        return True
    state = gangs.cells.chains[chain]
    at_once = all(leaf.user is None for leaf in found.bindings.values())
    return at_once or found.is_safe([len(level) for level in state.free], state.all_owned_free)


def _in_cluster(
    gangs: GangCells, request: GangRequest, chain: str, suggested: Set[str] | None
) -> list[list[VirtualCell]] | WaitReason:
    """Choose virtual leaves: free ones only, else also those of lower priorities."""
    tree = gangs.cells.clusters[request.cluster]
    view: NodeView | None = tree.pinned_views[request.pinned] if request.pinned else tree.views.get(chain)
    if view is None:
        return WaitReason(WaitCode.NO_CHAIN)
    priority = OPPORTUNISTIC
    chosen = view.choose(request.sizes, priority, suggested)
    if chosen.reason is not None:
        priority = request.priority
        chosen = view.choose(request.sizes, priority, suggested)
    if chosen.reason is not None:
        return chosen.reason
    return _virtual(chosen_leaves(view, chosen.rows, request.sizes, priority))


def _preempt_lazily(
    gangs: GangCells, virtual: list[list[VirtualCell]], preemptor: str
) -> list[tuple[AffinityGroup, VirtualPods]]:
    preempted = []
    for cell in (cell for pod in virtual for cell in pod):
        leaf = cell.physical
        if leaf is None or leaf.state != LeafState.USED or leaf.user is None or not leaf.user.request.lazy_preemption:
            continue
        group = leaf.user
        before = gangs.preempt_lazily(group, preemptor)
        if before is not None:
            preempted.append((group, before))
    return preempted


def _physical(pods: list[list[Cell]]) -> list[list[PhysicalCell]]:
    return [[leaf for leaf in pod if isinstance(leaf, PhysicalCell)] for pod in pods]


def _virtual(pods: list[list[Cell]]) -> list[list[VirtualCell]]:
    return [[leaf for leaf in pod if isinstance(leaf, VirtualCell)] for pod in pods]
