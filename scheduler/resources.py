"""Amounts of named resources in columns, such as the GPUs, CPUs and memory that are free on each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

COLUMNS = ("gpus", "cpus", "memory")  # the first columns of all amounts; memory in MiB
ISLAND = "island"  # island0: GPUs on the first island of a node, island1: on the second one, ...


@dataclass(frozen=True, slots=True, eq=False)
class Resources(Mapping[str, npt.NDArray[np.float64]]):
    """A mapping from the name of a resource to its column.

    The columns are views of one array, so that all amounts of a node are read, added and compared at once.

    Attributes:
        amount: shape (rows, columns): a row for each node, or for each allocation.
        names: the name of each column: `COLUMNS`, then an island after the other where islands are known.
    """

    amount: npt.NDArray[np.float64]
    names: tuple[str, ...] = COLUMNS

    @classmethod
    def of(
        cls, gpus: npt.ArrayLike, cpus: npt.ArrayLike, memory: npt.ArrayLike, islands: npt.ArrayLike | None = None
    ) -> Resources:
        """Return the columns of these amounts.

        Args:
            gpus: shape (rows,).
            cpus: shape (rows,).
            memory: MiB, shape (rows,).
            islands: GPUs on each island of the row's node, shape (rows, islands); None: no islands are known.
        """
        amount = np.stack((gpus, cpus, memory), axis=1).astype(np.float64)
        return cls(amount) if islands is None else cls(amount).with_islands(islands)

    def with_islands(self, islands: npt.ArrayLike) -> Resources:
        """Return these amounts with a column for each island. `islands`: shape (rows, islands)."""
        counted = np.asarray(islands, np.float64)
        names = tuple(f"{ISLAND}{at}" for at in range(counted.shape[1]))
        own = self.amount[:, : len(COLUMNS)]
        return Resources(np.concatenate((own, counted), axis=1), (*COLUMNS, *names))

    def rows(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Resources:
        """Return some of the rows."""
        return Resources(self.amount[rows], self.names)

    @property
    def islands(self) -> npt.NDArray[np.float64]:
        """GPUs on each island, shape (rows, islands); no columns where no islands are known."""
        return self.amount[:, len(COLUMNS) :]

    def __getitem__(self, name: str) -> npt.NDArray[np.float64]:
        if name not in self.names:
            raise KeyError(name)
        return self.amount[:, self.names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def joined(parts: Sequence[Resources]) -> Resources:
    """Return the rows of all parts, which have the same columns."""
    return Resources(np.concatenate([part.amount for part in parts]), parts[0].names)
