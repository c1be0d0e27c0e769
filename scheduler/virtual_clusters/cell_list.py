"""An ordered set of the cells of one level of a chain, and a draft of several of them that one request changes.

Cells are appended at the end. A removed cell is replaced by the last one, so that each operation takes constant time. The order
decides between equally good cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.virtual_clusters.cell import PhysicalCell

Numbers = npt.NDArray[np.int32]
_FEW = 32  # so many cells are sorted faster without numpy
opportunistic_of: Callable[[PhysicalCell], int] = attrgetter("opportunistic")


class CellList:
    """An ordered set of cells of one level."""

    def __init__(self, level_cells: Sequence[PhysicalCell]) -> None:
        """Start empty; `level_cells` are all cells of the level by number."""
        self._cells = level_cells
        self._numbers = np.zeros(len(level_cells), np.int32)
        self._position = [-1] * len(level_cells)
        self._count = 0

    def __len__(self) -> int:
        """Return the number of cells."""
        return self._count

    def __contains__(self, cell: PhysicalCell) -> bool:
        """Return whether the set contains the cell."""
        return self._position[cell.number] >= 0

    def __iter__(self) -> Iterator[PhysicalCell]:
        """Iterate in order."""
        return (self._cells[number] for number in self.numbers().tolist())

    def __getitem__(self, position: int) -> PhysicalCell:
        """Return the cell at a position."""
        return self._cells[int(self.numbers()[position])]

    def numbers(self) -> Numbers:
        """Return the numbers of the cells in order, as a view that the next change invalidates."""
        return self._numbers[: self._count]

    def append(self, cell: PhysicalCell) -> None:
        """Add a cell at the end."""
        self._numbers[self._count] = cell.number
        self._position[cell.number] = self._count
        self._count += 1

    def remove(self, cell: PhysicalCell) -> None:
        """Remove a cell; the last one takes its position. Raises ValueError if it is not there."""
        position = self._position[cell.number]
        if position < 0:
            raise ValueError(f"{cell!r} is not in the list")
        self._count -= 1
        last = int(self._numbers[self._count])
        self._numbers[position], self._position[last] = last, position
        self._position[cell.number] = -1

    def sort(self) -> None:
        """Order the cells by number. O(cells), unless they are in that order."""
        numbers = self.numbers()
        if (np.diff(numbers) > 0).all():
            return
        numbers.sort()
        for position, number in enumerate(numbers.tolist()):
            self._position[number] = position

    def reset(self, cells: Sequence[PhysicalCell]) -> None:
        """Replace the contents."""
        for cell in list(self):
            self.remove(cell)
        for cell in cells:
            self.append(cell)


class FreeCellDraft:
    """The free cells of a chain by level, for the search of one request: a change is seen by that search alone."""

    def __init__(
        self,
        cells: Sequence[Sequence[PhysicalCell]],
        free: Sequence[CellList],
        opportunistic: Sequence[npt.NDArray[np.int32]],
    ) -> None:
        """Start with the free cells.

        Args:
            cells: All cells of each level by number; index 0 is unused.
            free: Free cells of each level.
            opportunistic: For each cell of each level the leaves that opportunistic jobs use.
        """
        self._cells, self._opportunistic = cells, opportunistic
        self._numbers = [each.numbers() for each in free]

    @property
    def top(self) -> int:
        """The topmost level."""
        return len(self._numbers) - 1

    def count(self, level: int) -> int:
        """Return the number of free cells of a level."""
        return len(self._numbers[level])

    def first(self, level: int, count: int) -> list[PhysicalCell]:
        """Remove `count` times the cell at the first position and return the cells."""
        taken = []
        for _ in range(count):
            taken.append(self._cells[level][int(self._numbers[level][0])])
            self.remove(taken[-1])
        return taken

    def append(self, level: int, cells: Sequence[PhysicalCell]) -> None:
        """Add cells of a level at the end."""
        self._numbers[level] = np.concatenate([self._numbers[level], _numbers_of(cells)])

    def prepend(self, level: int, cells: Sequence[PhysicalCell]) -> None:
        """Add cells of a level at the beginning."""
        self._numbers[level] = np.concatenate([_numbers_of(cells), self._numbers[level]])

    def remove(self, cell: PhysicalCell) -> None:
        """Remove a cell; the last one takes its position."""
        numbers = self._numbers[cell.level].copy()
        position = int(np.flatnonzero(numbers == cell.number)[0])
        numbers[position] = numbers[-1]
        self._numbers[cell.level] = numbers[:-1]

    def clear(self, level: int) -> None:
        """Remove all cells of a level."""
        self._numbers[level] = self._numbers[level][:0]

    def candidates(self, level: int) -> Iterator[PhysicalCell]:
        """Iterate over the free cells of a level, those with the fewest GPUs of opportunistic jobs first."""
        cells, numbers = self._cells[level], self._numbers[level]
        if len(numbers) <= _FEW:
            return iter(sorted((cells[number] for number in numbers.tolist()), key=opportunistic_of))
        order = np.argsort(self._opportunistic[level][numbers], kind="stable")
        return (cells[int(numbers[position])] for position in order)


def _numbers_of(cells: Sequence[PhysicalCell]) -> Numbers:
    return np.fromiter((cell.number for cell in cells), np.int32, len(cells))
