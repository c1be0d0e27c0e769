"""The rows of the physical nodes in a snapshot, by name and by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tiresias.scheduler.model import Ints
from tiresias.scheduler.virtual_clusters.physical_tree import PhysicalTree


class CellRows:
    """The rows of the nodes. Those of the cells of a level are read once for all virtual clusters.

    Attributes:
        of_node: The row of each node by name.
    """

    def __init__(self, names: Sequence[str], physical: PhysicalTree) -> None:
        """`names`: of the nodes of the snapshot."""
        self.of_node: Mapping[str, int] = {name: row for row, name in enumerate(names)}
        self._cells = physical.cells
        self._of_level: dict[tuple[str, int], Ints] = {}

    def of_level(self, chain: str, level: int) -> Ints:
        """Return the row of the node of each cell of a level, by number. The level is that of the nodes or below."""
        found = self._of_level.get((chain, level))
        if found is None:
            rows = [self.of_node[cell.nodes[0]] for cell in self._cells[chain][level]]
            found = self._of_level[chain, level] = np.array(rows, np.int64)
        return found
