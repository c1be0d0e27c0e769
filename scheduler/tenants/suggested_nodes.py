"""Nodes by name, of which few are asked for: no set of all of them is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import compress

from tiresias.scheduler.model import Bools


class SuggestedNodes(Set[str]):
    """The names of some nodes.

    Args:
        row: The row of each node by name, in the order of the rows.
        chosen: Which nodes, shape (nodes,).
    """

    def __init__(self, row: Mapping[str, int], chosen: Bools) -> None:
        self._row, self._chosen = row, chosen

    def also(self, other: SuggestedNodes) -> SuggestedNodes:
        """Return those of these nodes that others contain, too. They have the same rows."""
        return SuggestedNodes(self._row, self._chosen & other._chosen)

    def __contains__(self, name: object) -> bool:
        row = self._row.get(name)  # type: ignore[call-overload] # any object may be asked for
        return row is not None and bool(self._chosen[row])

    def __iter__(self) -> Iterator[str]:
        return compress(self._row, self._chosen.tolist())

    def __len__(self) -> int:
        return int(self._chosen.sum())

    def isdisjoint(self, other: Iterable[object]) -> bool:
        """Return whether none of the others is one of these nodes."""
        return not any(map(self.__contains__, other))
