"""The placement request of each job in one decision: its nodes and features, its style, and whether it needs the fewest nodes."""

from __future__ import annotations

import math

import numpy as np

from tiresias.scheduler.model import Snapshot, Style
from tiresias.scheduler.place.free_capacity import PlacementRequest
from tiresias.scheduler.place.placer import Placer


class PlacementRequests:
    """The placement requests of the jobs of a snapshot, by row.

    Args:
        snapshot: The jobs.
        placer: The placer of the decision.
    """

    def __init__(self, snapshot: Snapshot, placer: Placer) -> None:
        jobs = snapshot.jobs
        self._time, self._jobs, self._placer = snapshot.time, jobs, placer
        style = np.zeros(len(jobs), np.int64) if jobs.style is None else jobs.style
        self._until = np.full(len(jobs), -math.inf) if jobs.packed_until is None else jobs.packed_until
        packed = (style == Style.CONSOLIDATE) & (snapshot.time < self._until)
        self._style: list[int] = style.tolist()  # Python's numbers: they are read one by one
        self._packed: list[bool] = packed.tolist()
        # by identity, which is faster than by value: the snapshot keeps its requests, and equal ones are mostly one object
        self._kinds: dict[tuple[int, int, bool], PlacementRequest] = {}

    def of(self, row: int) -> PlacementRequest:
        """Return the request of a job as it holds now."""
        request, style, packed = self._jobs.request[row], self._style[row], self._packed[row]
        kind = self._kinds.get((id(request), style, packed))
        if kind is None:
            kind = self._kinds[id(request), style, packed] = self._placer.kind(request, style, packed)
        return kind

    def on_any_nodes(self, row: int) -> PlacementRequest:
        """Return the request of a job without the wait for the fewest nodes."""
        return self._placer.kind(self._jobs.request[row], self._style[row])

    def packed_s(self, row: int) -> float:
        """Return the seconds for which the job waits for the fewest nodes; inf where it does not wait for them."""
        return float(self._until[row] - self._time) if self._packed[row] else math.inf

    def possible(self, row: int) -> bool:
        """Return whether the job could run on the empty cluster."""
        return self._placer.possible(self._placer.kind(self._jobs.request[row]), int(self._jobs.gpus[row]))
