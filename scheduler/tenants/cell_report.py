"""What viewers show of the cells: both trees, the free cells of each level, and what each virtual cluster (VC) could start now.

Plain data, from the cells as the newest snapshot shows them. Nothing is computed in a cycle: a report is made when it is requested.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy, is_unmanaged
from tiresias.scheduler.tenants.cell_trees import ShownCell, hardware_cells, is_free, virtual_cells
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


class _LevelCounts:
    """Counts the cells of trees by chain and level.

    Attributes:
        cells, free, largest: By chain and level, as in `CellLevelReport`.
        nodes, fragmented: As in `VirtualClusterReport`.
    """

    def __init__(self) -> None:
        self.cells, self.free = Counter[tuple[CellChain, int]](), Counter[tuple[CellChain, int]]()
        self.largest: defaultdict[tuple[CellChain, int], int] = defaultdict(int)
        self.nodes = self.fragmented = 0

    def add(self, cell: Cell) -> int:
        """Count a cell and all below it; return its free GPUs."""
        if is_free(cell):
            free = self._add_whole(cell, self.free)
        elif cell.level == LEAF_LEVEL:
            return 0
        else:
            free = sum(self.add(child) for child in cell.children)
        key, gpus = (cell.chain, cell.level), cell.chain.at(cell.level).leaves
        self.cells[key] += 1
        self.largest[key] = max(self.largest[key], free)
        if cell.level == cell.chain.node_level or (cell.parent is None and cell.level < cell.chain.node_level):
            self.nodes += 1
            self.fragmented += 0 < free < gpus
        return free

    def _add_whole(self, cell: Cell, counts: Counter[tuple[CellChain, int]]) -> int:
        """Count a cell that is free with all below it."""
        chain, inside = cell.chain, 1
        counts[chain, cell.level] += 1
        for level in range(cell.level - 1, LEAF_LEVEL, -1):
            inside *= chain.at(level + 1).children
            self.cells[chain, level] += inside
            counts[chain, level] += inside
            self.largest[chain, level] = max(self.largest[chain, level], chain.at(level).leaves)
            self.nodes += inside if level == chain.node_level else 0
        return chain.at(cell.level).leaves

    def report(self, owned: dict[str, list[int]]) -> tuple[CellLevelReport, ...]:
        """Return the levels, chain by chain, the largest cells first. `owned`: topmost cells by chain and level."""
        keys = sorted(self.cells, key=lambda key: (key[0].name, -key[1]))
        return tuple(
            CellLevelReport(
                chain.at(level).cell_type,
                chain.at(level).leaves,
                owned[chain.name][level] if chain.name in owned else 0,
                self.cells[chain, level],
                self.free[chain, level],
                self.largest[chain, level],
            )
            for chain, level in keys
            if level > LEAF_LEVEL
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
    return 1 if cell.level == LEAF_LEVEL else sum(map(_gpus_in_use, cell.children))


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
