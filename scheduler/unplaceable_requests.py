"""Requests for one GPU that no repetition of the walk can place: jobs with such a request are skipped without another attempt."""

from __future__ import annotations

from tiresias.scheduler.model import Ints
from tiresias.scheduler.place.free_capacity import PlacementRequest
from tiresias.scheduler.placement_requests import PlacementRequests


class UnplaceableRequests:
    """Requests that failed in walks that had to be repeated.

    The walk is repeated without the jobs that it skipped. Up to the first of them it selects the same jobs again, and if all of
    these found free nodes, they find the same ones. The first one could have had the GPUs of all running jobs that rank after it.
    A job that ranks after it can have fewer. So one with the same request for one GPU is skipped as well.

    Args:
        requests: The placement requests of the jobs.
        gpus: Of each job, shape (jobs,).
        rank: Of each job, shape (jobs,).
        by_order: Whether the order of the jobs alone decides which running jobs release their GPUs. Otherwise none is kept.
    """

    def __init__(self, requests: PlacementRequests, gpus: Ints, rank: Ints, by_order: bool) -> None:
        self._requests, self._gpus, self._rank, self._by_order = requests, gpus, rank, by_order
        self._repeated = -1  # up to this rank, each walk is the same
        self._skipped = set[PlacementRequest]()  # what the first jobs that were skipped request

    def add(self, row: int) -> None:
        """Add the first job that a walk skipped. The jobs ahead of it have found free nodes, and it may use those of others."""
        if not self._by_order:
            return
        self._repeated = max(self._repeated, int(self._rank[row]))
        kind = self._requests.of(row)
        request = kind.request
        if self._gpus[row] == 1 and not (kind.packed or request.nodes or request.remote_memory):
            self._skipped.add(kind)

    def among(self, rows: Ints) -> list[int]:
        """Return the jobs that a walk would skip, if they are all that it has not placed before; else [].

        `rows`: the waiting jobs that the walk selected.
        """
        if not self._skipped:
            return []
        found: list[int] = rows[self._rank[rows] > self._repeated].tolist()
        return found if all(map(self._is_skipped, found)) else []

    def _is_skipped(self, row: int) -> bool:
        return int(self._gpus[row]) == 1 and self._requests.of(row) in self._skipped
