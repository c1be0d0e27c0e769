"""Binds what the virtual clusters (VCs) have decided to hardware: which jobs start, are preempted, or change their cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from tiresias.scheduler.model import Bools, Ints, JobState, Rebind, Request, Snapshot, Start
from tiresias.scheduler.place.free_capacity import COUNTED
from tiresias.scheduler.place.selected_parts import is_of_type, only_part
from tiresias.scheduler.tenants.cell_changes import CellChanges, ChosenNodes, users
from tiresias.scheduler.tenants.cell_holders import CellHolders
from tiresias.scheduler.tenants.cell_occupancy import GUARANTEED, CellOccupancy
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand, may_be_removed
from tiresias.scheduler.tenants.held_parts import parts_of_gpus
from tiresias.scheduler.tenants.named_nodes import NamedNodes
from tiresias.scheduler.tenants.node_conditions import NodeConditions
from tiresias.scheduler.tenants.opportunistic_victims import OpportunisticVictims
from tiresias.scheduler.tenants.selected_nodes import SelectedNodes
from tiresias.scheduler.tenants.shared_nodes import SharedNodes
from tiresias.scheduler.tenants.shown_gangs import COVERED, MOVABLE
from tiresias.scheduler.tenants.sparing_starts import PreemptingStart, SparingStarts
from tiresias.scheduler.tenants.suggested_nodes import SuggestedNodes
from tiresias.scheduler.tenants.tenant_decision import TenantDecision, preempted_for, selected_by
from tiresias.scheduler.topology_tree import Parts
from tiresias.scheduler.virtual_clusters.buddy_allocation import NO_LIMITS, OnlyNodes
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest
from tiresias.scheduler.virtual_clusters.placement_search import ChosenSearch, FoundPlacement


@dataclass(slots=True, eq=False)
class GuaranteedStarts:
    """What the VCs' decisions mean on the hardware.

    Attributes:
        starts: Jobs that start now in cells of their VC.
        reserved: Jobs that start there once others have released their GPUs.
        preempted: Victims, by id; the job for which each is preempted.
        cells: Types of the owned cells of running jobs whose cells change, by id; () for none.
        covered: Running jobs without cells for which their VC keeps cells free: preempted, they start there at once.
        unbound: Waiting jobs for which the VC has enough free GPUs, but no hardware that fits their requests.
        lacking: Those of them for which there is none even if all jobs without cells end.
        demand: What is promised on each node.
    """

    demand: HardwareDemand
    starts: list[Start] = field(default_factory=list)
    reserved: list[Start] = field(default_factory=list)
    preempted: dict[str, str] = field(default_factory=dict)
    cells: dict[str, tuple[str, ...]] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)
    unbound: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)

    @property
    def placed(self) -> set[str]:
        """Ids of the jobs that start, now or later."""
        return {start.job for start in (*self.starts, *self.reserved)}

    @property
    def rebindings(self) -> tuple[Rebind, ...]:
        """The changed cells of the jobs that go on running."""
        return tuple(Rebind(job, cells) for job, cells in self.cells.items() if job not in self.preempted)


class HardwareBinding:
    """Binds the decisions of one snapshot, VC by VC.

    Args:
        snapshot: Jobs, nodes and allocations.
        occupancy: The cells; they are as before once `run` has returned.
        holders: The jobs that hold cells.
        may_stay: The jobs that may run opportunistically, shape (jobs,).
        order: Returns the rows of chosen jobs, shape (jobs,), as the policy of the jobs without cells ranks them.
        by_condition: The nodes by conditions.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        occupancy: CellOccupancy,
        holders: CellHolders,
        may_stay: Bools,
        order: Callable[[Bools], Ints],
        by_condition: NodeConditions,
    ) -> None:
        self._by_condition, self._node = by_condition, by_condition.row_of
        self._snapshot, self._occupancy, self._may_stay, self._order = snapshot, occupancy, may_stay, order
        self._holders, self._row = holders, holders.row_of
        self._refused: dict[str, frozenset[PhysicalCell]] = {"": frozenset()}
        self._changes = CellChanges(occupancy)
        self._movable = may_be_removed(snapshot)
        self._preempting: list[PreemptingStart] = []
        self._shared = SharedNodes()
        self._named = NamedNodes(snapshot, self._row, self._node)
        self._selected: SelectedNodes | None = None  # None: no hardware is bad

    def run(self, decisions: Sequence[TenantDecision]) -> GuaranteedStarts:
        """Return what the decisions mean on the hardware."""
        self._occupancy.sort()
        try:
            return self._run(decisions)
        finally:
            self._changes.undo()

    def _run(self, decisions: Sequence[TenantDecision]) -> GuaranteedStarts:
        demoted: dict[str, str] = {}
        for decision in decisions:
            demoted |= preempted_for(decision.part)
        for job, preemptor in demoted.items():
            self._changes.demote(job, preemptor)
        cells: dict[str, tuple[str, ...]] = dict.fromkeys((*self._occupancy.lost(), *demoted), ())
        found = GuaranteedStarts(self._demand(cells), cells=cells)
        found.preempted = {job: other for job, other in demoted.items() if not self._may_stay[self._row[job]]}
        selected = [
            (start.job, self._named.chosen(decision, start))
            for decision in decisions
            for start in selected_by(decision.part, self._row)
        ]
        waiting = [at for at, (job, _) in enumerate(selected) if not self._runs(job)]
        if self._occupancy.clusters.cells.bad.nodes:
            self._selected = SelectedNodes([chosen for _, chosen in selected])
        for at, (job, chosen) in enumerate(selected):
            if self._runs(job):
                self._cover(found, job, chosen, at)
        if len(waiting) < len(selected):
            found.demand = self._demand(found.cells)
        removable, demand = self._removable(found.cells), found.demand
        victims = OpportunisticVictims(
            self._snapshot, self._changes, self._row, removable, demand, found.preempted, found.covered, self._order
        )
        for at in waiting:
            self._bind(found, victims, *selected[at], at)
            self._settle(at)
        self._spare(found, victims)
        return found

    def _spare(self, found: GuaranteedStarts, victims: OpportunisticVictims) -> None:
        """Let jobs start on free GPUs beyond their cells where that spares others."""
        if not self._preempting:
            return
        nodes, held = self._snapshot.nodes, self._snapshot.allocations
        guaranteed = np.zeros(len(nodes), np.bool_)
        guaranteed[held.node[~self._without_cells(found.cells)[held.job]]] = True
        starts = SparingStarts(nodes, found.demand, victims, guaranteed).of(self._preempting)
        moved = {start.job for start in starts}
        found.starts += starts
        found.reserved = [start for start in found.reserved if start.job not in moved]
        found.preempted = {job: other for job, other in found.preempted.items() if other not in moved}

    def _runs(self, job: str) -> bool:
        return int(self._snapshot.jobs.state[self._row[job]]) != JobState.WAITING

    def _demand(self, cells: Mapping[str, tuple[str, ...]]) -> HardwareDemand:
        """Return what is free, and what jobs without cells that may be preempted hold. `cells`: of those whose cells change."""
        return HardwareDemand(self._snapshot, self._removable(cells), self._by_condition)

    def _removable(self, cells: Mapping[str, tuple[str, ...]]) -> Bools:
        """Return the jobs without cells that may be preempted or release their GPUs, shape (jobs,)."""
        removable = self._without_cells(cells)
        removable &= self._movable
        return removable

    def _without_cells(self, cells: Mapping[str, tuple[str, ...]]) -> Bools:
        """Return the jobs with GPUs and no cells, shape (jobs,). `cells`: of those whose cells change."""
        found: Bools = self._holders.without_cells.copy()
        found[[self._row[job] for job in cells]] = [not owned for owned in cells.values()]
        return found

    def _cover(self, found: GuaranteedStarts, job: str, chosen: ChosenNodes, at: int) -> None:
        """Give a running job cells where it runs, or keep cells free for it. `at`: its place among the selected jobs."""
        first = self._changes.made
        if self._changes.promote(job, chosen):
            if self._leaves_healthy_nodes(at):
                found.cells[job] = self._cells_of(job)
                self._settle(at)
                return
            self._changes.take_back(first)
        found.covered.add(job)
        self._shared.keep(self._snapshot.jobs.request[self._row[job]], chosen)
        self._changes.weigh(job, COVERED - MOVABLE)

    def _leaves_healthy_nodes(self, at: int) -> bool:
        """Return whether the jobs of the same VC that rank before a selected one can have their healthy nodes."""
        return self._selected is None or self._selected.are_healthy_before(at)

    def _settle(self, at: int) -> None:
        if self._selected is not None:
            self._selected.settle(at)

    def _cells_of(self, job: str) -> tuple[str, ...]:
        """Return the types of the cells of a job, in the order of its allocations."""
        group, held = self._occupancy.clusters.groups[job], self._snapshot.allocations
        types = {leaf.nodes[0]: _type_of_cell(leaf.virtual) for leaf in group.leaves()}
        rows = np.flatnonzero(held.job == self._row[job])
        return tuple(types.get(self._snapshot.nodes.name[node], "") for node in held.node[rows].tolist())

    def _bind(
        self, found: GuaranteedStarts, victims: OpportunisticVictims, job: str, chosen: ChosenNodes, at: int
    ) -> None:
        """Start a waiting job on hardware for its cells. `at`: its place among the selected jobs.

        Hardware comes first that also suits the jobs for which GPUs of the same VC are kept free; for a job that names some of its
        nodes, the one with the fewest GPUs to preempt.
        """
        if job in self._named:
            suit_others, only = {}, self._cheapest(found, victims, job, chosen)
        else:
            suit_others, only = self._shared.nodes_of(chosen, found.demand), NO_LIMITS
        is_bound = bool(suit_others) and self._bind_on(found, victims, job, chosen, at, suit_others)
        if not is_bound and not self._bind_on(found, victims, job, chosen, at, only):
            found.unbound.add(job)
            if self._lacks_hardware(found, job, chosen, only):
                found.lacking.add(job)

    def _cheapest(
        self, found: GuaranteedStarts, victims: OpportunisticVictims, job: str, chosen: ChosenNodes
    ) -> OnlyNodes:
        """Return how a job that names some of its nodes is bound with the fewest GPUs of preempted jobs."""
        request, suggested = self._snapshot.jobs.request[self._row[job]], self._suggested(found.demand, job, chosen)
        ways = list(self._named.limits(job, chosen))
        best = math.inf, ways[0]
        for only in ways:
            bound = victims.bind(_gang(job, chosen), self._search(job, chosen, suggested, only), request)
            if bound is not None:
                self._changes.take_back_last()
                best = min(best, (bound.cost[0], only), key=itemgetter(0))
            if bound is not None and not bound.victims:
                break
        return best[1]

    def _lacks_hardware(self, found: GuaranteedStarts, job: str, chosen: ChosenNodes, only: OnlyNodes) -> bool:
        """Return whether some healthy nodes do not suit a job, and the others would not suffice if all jobs without cells ended."""
        demand = HardwareDemand(self._snapshot, self._without_cells(found.cells), self._by_condition)
        suggested = self._suggested(demand, job, chosen)
        if suggested is None or len(suggested) == np.count_nonzero(self._snapshot.nodes.usable):
            return False
        return self._search(job, chosen, suggested, only).run() is None

    def _search(self, job: str, chosen: ChosenNodes, suggested: SuggestedNodes | None, only: OnlyNodes) -> ChosenSearch:
        """Return the search for the hardware of a job. `only`: as of `_bind_on`."""
        refused = self._of_other_types(self._snapshot.jobs.request[self._row[job]].gpu_type)
        cells = {cell for cell, _ in chosen}
        chosen = sorted(chosen, key=lambda each: each[0] not in only)  # of equal cells, those with limits choose first
        others = [cell for cell in only if cell not in cells]
        if not others:
            return self._changes.search(chosen, suggested, refused, only)
        limits = dict(only)
        if suggested is not None:
            limits |= {cell: {name for name in only.get(cell, suggested) if name in suggested} for cell in cells}
        return self._changes.search(chosen, None, refused, limits, others)

    def _suggested(self, demand: HardwareDemand, job: str, chosen: ChosenNodes) -> SuggestedNodes | None:
        """Return the nodes that can give a job all its GPUs on one of its virtual nodes; None: all."""
        return demand.suggested(self._named.request(job), max(gpus for _, gpus in chosen))

    def _bind_on(
        self,
        found: GuaranteedStarts,
        victims: OpportunisticVictims,
        job: str,
        chosen: ChosenNodes,
        at: int,
        only: OnlyNodes = NO_LIMITS,
    ) -> bool:
        """Start a waiting job on hardware for its cells. False, and nothing has changed: there is none.

        Args:
            found: What has been found for the jobs before it.
            victims: Finds the hardware.
            job: Its id.
            chosen: Its virtual nodes.
            at: Its place among the selected jobs.
            only: For virtual nodes that may be bound to some nodes only: the names of these. For those that are not chosen
                there has to be such hardware as well.
        """
        row = self._row[job]
        request = self._snapshot.jobs.request[row]
        suggested = self._suggested(found.demand, job, chosen)
        search = self._search(job, chosen, suggested, only)
        bound = victims.bind(_gang(job, chosen), search, request)
        if bound is None:
            return False
        placement, preempted = bound.found, [] if self._free_only(row) else bound.victims
        start = self._start(job, placement)
        possible = _is_on(start, suggested) and self._suits(request, start) and self._may_be_freed(placement, row)
        possible = possible and self._leaves_healthy_nodes(at)
        if not possible or not found.demand.promise(request, start.nodes):
            self._changes.take_back_last()
            return False
        victims.preempt(preempted)
        now = not preempted and _are_free(placement, start)
        now = now and found.demand.free_now([name for name, _ in start.nodes])
        (found.starts if now else found.reserved).append(start)
        found.preempted |= dict.fromkeys(preempted, job)
        if preempted and len(start.nodes) == 1 and self._may_spare(row):
            self._preempting.append(PreemptingStart(start, request, preempted))
        return True

    def _start(self, job: str, placement: FoundPlacement) -> Start:
        """Return the start by the names of its nodes, with the type of the owned cell and the GPUs of each part there."""
        leaves: dict[str, list[tuple[PhysicalCell, VirtualCell]]] = {}
        for physical, virtual in zip(placement.physical, placement.virtual or (), strict=True):
            for leaf, cell in zip(physical, virtual, strict=True):
                leaves.setdefault(leaf.nodes[0], []).append((leaf, cell))
        nodes = sorted(leaves)
        parts = tuple([self._parts_of(name, [leaf for leaf, _ in leaves[name]]) for name in nodes])
        return Start(
            job,
            tuple([(name, len(leaves[name])) for name in nodes]),
            tuple([_type_of_cell(leaves[name][0][1]) for name in nodes]),
            parts if any(parts) else (),
        )

    def _of_other_types(self, gpu_type: str) -> frozenset[PhysicalCell]:
        """Return the GPUs of parts that have other types than the requested one."""
        leaves, nodes = self._occupancy.clusters.cells.physical.leaves, self._snapshot.nodes
        if nodes.topology.selectable is None:
            return frozenset()
        if gpu_type not in self._refused:
            self._refused[gpu_type] = frozenset(
                leaf
                for name, row in self._node.items()
                if only_part(nodes, row, gpu_type) is not None
                for leaf in leaves.get(name, ())
                if not is_of_type(nodes, row, gpu_type, self._parts_of(name, [leaf]))
            )
        return self._refused[gpu_type]

    def _parts_of(self, node: str, leaves: Sequence[PhysicalCell]) -> Parts:
        topology = self._snapshot.nodes.topology
        if topology.selectable is None:
            return ()
        return parts_of_gpus(topology, self._node[node], [leaf.leaf_index for leaf in leaves])

    def _suits(self, request: Request, start: Start) -> bool:
        """Return whether the request permits this number of nodes and these GPUs: cells below the node may lie in one node."""
        per_node = request.gpus_per_node
        if len(start.nodes) < request.min_nodes or (per_node and any(gpus != per_node for _, gpus in start.nodes)):
            return False
        nodes = self._snapshot.nodes
        shares = zip(start.nodes, start.parts, strict=False)
        return all(is_of_type(nodes, self._node[name], request.gpu_type, parts) for (name, _), parts in shares)

    def _may_be_freed(self, placement: FoundPlacement, row: int) -> bool:
        """Return whether the jobs on the GPUs of a placement may be preempted for this job, or release them."""
        names = placement_users(placement)
        movable = all(name in self._row and self._movable[self._row[name]] for name in names)
        return not names or (movable and not self._free_only(row))

    def _may_spare(self, row: int) -> bool:
        """Return whether a job may start beyond its cells while it could start in them: its preemption there loses no work."""
        saves, has_parts = self._snapshot.jobs.saves, self._snapshot.nodes.free.amount.shape[1] > COUNTED
        return bool(self._may_stay[row]) and (saves is None or bool(saves[row])) and not has_parts

    def _free_only(self, row: int) -> bool:
        free_only = self._snapshot.jobs.free_only
        return free_only is not None and bool(free_only[row])


def _gang(job: str, chosen: ChosenNodes) -> GangRequest:
    """Return a job as a guaranteed gang with a pod on each of its virtual nodes."""
    return GangRequest(job, chosen[0][0].cluster, GUARANTEED, tuple([(1, gpus) for _, gpus in chosen]))


def _is_on(start: Start, suggested: Set[str] | None) -> bool:
    """Return whether all nodes of a start are suggested. Cells that are bound already may be on other ones."""
    return suggested is None or all(node in suggested for node, _ in start.nodes)


def _are_free(placement: FoundPlacement, start: Start) -> bool:
    """Return whether no job uses the parts of nodes that a start selects. GPUs of which it selects no part are counted by node."""
    return not start.parts or not users(placement)


def placement_users(placement: FoundPlacement) -> list[str]:
    """Return the names of the gangs on the GPUs of a placement."""
    return [group.name for group in users(placement)]


def _type_of_cell(virtual: VirtualCell | None) -> str:
    return virtual.chain.at(virtual.preassigned.level).cell_type if virtual is not None else ""
