"""What viewers show of the cells: both trees, the free cells of each level, and what each virtual cluster (VC) could start now.

Plain data, from the cells as the newest snapshot shows them. Nothing is computed in a cycle: a report is made when it is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.cell_trees import ShownCell, hardware_cells, is_free, virtual_cells
from tiresias.scheduler.tenants.shown_gangs import is_unmanaged
from tiresias.scheduler.virtual_clusters.cell import FREE, Cell, VirtualCell
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL, CellChain
from tiresias.scheduler.virtual_clusters.virtual_tree import VirtualTree


@dataclass(frozen=True, slots=True)
class CellLevelReport:
    """The cells of one type, in a VC or in the hardware; parts of larger cells are counted.

    Attributes:
        cell_type: Name of the type.
        gpus: GPUs of each cell.
        owned: Topmost cells of this type that the VC owns; of the hardware, that all VCs own.
        cells: Number of cells.
        free: Cells that are healthy and that no job uses; in a VC, no guaranteed job.
        largest: The most GPUs that one cell has free.
    """

    cell_type: str
    gpus: int
    owned: int
    cells: int
    free: int
    largest: int


@dataclass(frozen=True, slots=True)
class VirtualClusterReport:
    """The cells of one VC.

    Attributes:
        name: Its name.
        gpus: GPUs of its cells.
        guaranteed: Of these, used by its guaranteed jobs.
        free: Of these, free and healthy.
        opportunistic: GPUs that its jobs use beyond its cells.
        nodes: Nodes of its cells, and topmost cells below the node level.
        fragmented: Of these, those with some free GPUs that cannot give all of their GPUs.
        levels: Its cells by type, the largest first.
        cells: The tree; () where none was requested.
    """

    name: str
    gpus: int
    guaranteed: int
    free: int
    opportunistic: int
    nodes: int
    fragmented: int
    levels: tuple[CellLevelReport, ...]
    cells: tuple[ShownCell, ...] = ()


@dataclass(frozen=True, slots=True)
class CellReport:
    """The cells of a cluster.

    Attributes:
        clusters: The VCs.
        outside: GPUs of managed jobs that belong to no VC.
        unmanaged: GPUs of unmanaged jobs.
        levels: The hardware by type, the largest cells first; () where no trees were requested.
        hardware: The topmost physical cells; () where no trees were requested.
    """

    clusters: tuple[VirtualClusterReport, ...]
    outside: int
    unmanaged: int
    levels: tuple[CellLevelReport, ...] = ()
    hardware: tuple[ShownCell, ...] = ()


def cell_report(occupancy: CellOccupancy, *, trees: bool = True) -> CellReport:
    """Return the report. O(cells above the GPUs + GPUs in use); without trees, O(gangs + cells of VCs in use)."""
    state, beyond = occupancy.clusters.cells, _gpus_without_cells(occupancy)
    clusters = tuple(
        _of_cluster(name, tree, beyond[name], virtual_cells(occupancy, name) if trees else ())
        for name, tree in state.clusters.items()
    )
    outside, unmanaged = beyond[""], beyond[None]
    if not trees:
        return CellReport(clusters, outside, unmanaged)
    return CellReport(clusters, outside, unmanaged, _of_hardware(occupancy), hardware_cells(occupancy))


def _gpus_without_cells(occupancy: CellOccupancy) -> Counter[str | None]:
    """Return GPUs in use without cells by VC; "": of jobs of no VC, None: of unmanaged jobs."""
    known, found = occupancy.clusters.cells.clusters, Counter[str | None]()
    for name, group in occupancy.clusters.groups.items():
        if group.virtual is None:
            cluster = group.cluster if group.cluster in known else ""
            found[None if is_unmanaged(name) else cluster] += sum(group.request.sizes)
    return found


class _ChainCounts:
    """Counts the cells of trees of one chain. Lists by level have an unused element 0.

    Attributes:
        chain: The chain.
        cells, free, largest: By level, as in `CellLevelReport`.
        nodes, fragmented: As in `VirtualClusterReport`.
    """

    def __init__(self, chain: CellChain) -> None:
        self.chain, self._node_level = chain, chain.node_level
        self._gpus = [0, *(level.leaves for level in chain.levels)]
        self.cells, self.free, self.largest = ([0] * (chain.top + 1) for _ in range(3))
        self.nodes = self.fragmented = 0

    def add(self, cell: Cell) -> int:
        """Count a cell and all below it; return its free GPUs."""
        level = cell.level
        if is_free(cell):
            free = self._add_whole(level)
        elif level <= LEAF_LEVEL + 1:
            free = sum([is_free(leaf) for leaf in cell.children])
        else:
            free = sum([self.add(child) for child in cell.children])
        self.cells[level] += 1
        self.largest[level] = max(self.largest[level], free)
        if level == self._node_level or (level < self._node_level and cell.parent is None):
            self.nodes += 1
            self.fragmented += 0 < free < self._gpus[level]
        return free

    def _add_whole(self, top: int) -> int:
        """Count a cell of a level that is free with all below it."""
        self.free[top] += 1
        for level in range(top - 1, LEAF_LEVEL, -1):
            inside = self._gpus[top] // self._gpus[level]
            self.cells[level] += inside
            self.free[level] += inside
            self.largest[level] = self._gpus[level]
            self.nodes += inside if level == self._node_level else 0
        return self._gpus[top]

    def report(self, owned: Sequence[int]) -> list[CellLevelReport]:
        """Return the levels that have cells, the largest cells first. `owned`: topmost cells by level."""
        return [
            CellLevelReport(
                self.chain.at(level).cell_type,
                self._gpus[level],
                owned[level],
                self.cells[level],
                self.free[level],
                self.largest[level],
            )
            for level in range(self.chain.top, LEAF_LEVEL, -1)
            if self.cells[level]
        ]


class _LevelCounts:
    """Counts the cells of trees by chain."""

    def __init__(self) -> None:
        self._chains: dict[str, _ChainCounts] = {}

    def add(self, cell: Cell) -> int:
        """Count a topmost cell and all below it; return its free GPUs."""
        chain = cell.chain
        if chain.name not in self._chains:
            self._chains[chain.name] = _ChainCounts(chain)
        return self._chains[chain.name].add(cell)

    @property
    def nodes(self) -> int:
        """As in `VirtualClusterReport`."""
        return sum(each.nodes for each in self._chains.values())

    @property
    def fragmented(self) -> int:
        """As in `VirtualClusterReport`."""
        return sum(each.fragmented for each in self._chains.values())

    def report(self, owned: Mapping[str, Sequence[int]]) -> tuple[CellLevelReport, ...]:
        """Return the levels, chain by chain, the largest cells first. `owned`: topmost cells by chain and level."""
        chains = sorted(self._chains.items())
        return tuple(
            level for name, each in chains for level in each.report(owned.get(name, [0] * (each.chain.top + 1)))
        )


def _of_cluster(name: str, tree: VirtualTree, beyond: int, cells: tuple[ShownCell, ...]) -> VirtualClusterReport:
    counts, topmost = _LevelCounts(), tree.topmost
    free = sum(map(counts.add, topmost))
    gpus = sum(cell.chain.at(cell.level).leaves for cell in topmost)
    used = sum(_gpus_in_use(cell) for cell in topmost)
    return VirtualClusterReport(
        name, gpus, used, free, beyond, counts.nodes, counts.fragmented, counts.report(tree.owned), cells
    )


def _gpus_in_use(cell: VirtualCell) -> int:
    if cell.priority == FREE:
        return 0
    if cell.level == LEAF_LEVEL + 1:
        return sum([leaf.priority != FREE for leaf in cell.children])
    return sum(map(_gpus_in_use, cell.children)) if cell.children else 1


def _of_hardware(occupancy: CellOccupancy) -> tuple[CellLevelReport, ...]:
    state, counts = occupancy.clusters.cells, _LevelCounts()
    for chain, levels in state.physical.cells.items():
        for cell in levels[state.levels[chain].top]:
            counts.add(cell)
    owned = {name: [0] * (chain.top + 1) for name, chain in state.levels.items()}
    for tree in state.clusters.values():
        for name, by_level in tree.owned.items():
            owned[name] = [a + b for a, b in zip(owned[name], by_level, strict=True)]
    return counts.report(owned)
