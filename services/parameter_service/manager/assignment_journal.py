"""Writes the jobs and their assignment to the journal, each change in one transaction, and only what has changed.

The assignment is one piece for each aggregator with its tensors, and one for all the rest. A migration writes its job alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.manager.manager_journal import ClientRow, ManagerJournal

REST = "clusters"  # the piece with everything but the tensors


class AssignmentJournal:
    """What the journal has of jobs and assignment.

    Args:
        journal: The journal.
        clusters: The assignment.
        rows: The jobs that the journal has.
    """

    def __init__(self, journal: ManagerJournal, clusters: AggregatorClusters, rows: Iterable[ClientRow]) -> None:
        self._journal, self._clusters = journal, clusters
        self._written = journal.packing()
        self._needed = {row.job: _places(row) for row in rows}  # aggregators that have or get a master copy, by job

    def stored(self) -> dict[str, Any] | None:
        """Return the assignment for AggregatorClusters.restore(); None before the first."""
        return joined(self._written) if self._written else None

    def put(self, row: ClientRow, with_assignment: bool) -> None:
        """Write a job, and the assignment where it may have changed. Raises StateError, Superseded."""
        self._needed[row.job] = _places(row)
        self._write(lambda: self._journal.put_client(row), with_assignment)

    def remove(self, job: str) -> None:
        """Remove a job and write the assignment. Raises StateError, Superseded."""
        self._needed.pop(job, None)
        self._write(lambda: self._journal.remove_client(job), with_assignment=True)

    def put_assignment(self) -> None:
        """Write the assignment. Raises StateError, Superseded."""
        self._write(lambda: None, with_assignment=True)

    def _write(self, change: Callable[[], None], with_assignment: bool) -> None:
        needed = self._clusters.numbers.union(*self._needed.values())
        pieces = pieces_of(self._clusters.stored()) if with_assignment else self._written
        changed = {name: piece for name, piece in pieces.items() if self._written.get(name) != piece}
        with self._journal.together():
            change()
            self._journal.put_packing(changed, sorted(self._written.keys() - pieces.keys()))
            released = sorted(self._journal.members().keys() - needed)
            self._journal.put_numbers(sorted(self._clusters.numbers), released)
        self._written = pieces


def pieces_of(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored assignment in pieces: a list of tensors for each aggregator, and the rest with the order of aggregators."""
    pools = stored["pools"].items()
    loads = {number: load for _, pool in pools for number, load in pool["loads"].items()}
    order = {number: {**pool, "loads": list(pool["loads"])} for number, pool in pools}
    return {REST: {**stored, "pools": order}, **loads}


def joined(pieces: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored assignment of its pieces."""
    rest = pieces[REST]
    pools = {
        number: {**pool, "loads": {each: pieces[each] for each in pool["loads"]}}
        for number, pool in rest["pools"].items()
    }
    return {**rest, "pools": pools}


def _places(row: ClientRow) -> frozenset[int]:
    return frozenset(number for name in ("at", "to") for number in row.content.get(name, {}).values())
