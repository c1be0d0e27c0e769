"""Reservations and maintenance windows: the nodes on which a job may not start now, because it could overlap one."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import YEAR, Partition, Reservation

OPEN: frozenset[str] = frozenset()


def duration(job: SlurmJob) -> float:
    """Return the run time that Slurm assumes in checks of reservations: a year for a job without a time limit."""
    return float(job.time_limit) or YEAR


class ReservationWindows:
    """The reservations that have not ended. A reservation of a part of a node counts as the whole node."""

    def __init__(self, reservations: Sequence[Reservation], now: float) -> None:
        ahead = sorted((one for one in reservations if one.end > now and one.nodes), key=lambda one: one.start)
        self._now, self._reservations = now, ahead
        self._starts = [one.start for one in ahead]
        self._closed: dict[int, frozenset[str]] = {0: OPEN}
        self._left: dict[tuple[int, str], frozenset[str]] = {}
        self._words: dict[tuple[str, ...], str] = {}
        self._first_end = min((one.end for one in ahead), default=math.inf)

    def closed(self, seconds: float) -> frozenset[str]:
        """Return the nodes that are reserved within so many seconds; equal results are the same object."""
        count = bisect_left(self._starts, self._now + seconds)
        if count not in self._closed:
            nodes = (name for one in self._reservations[:count] for name in one.nodes)
            self._closed[count] = frozenset(nodes)
        return self._closed[count]

    def next_change(self, seconds: float) -> float:
        """Return the next time at which `closed` changes for jobs of this duration, or a reservation begins or ends."""
        later = bisect_right(self._starts, self._now + seconds)
        reached = self._starts[later] - seconds if later < len(self._starts) else math.inf
        began = bisect_right(self._starts, self._now)
        begins = self._starts[began] if began < len(self._starts) else math.inf
        return min(reached, begins, self._first_end)

    def obstacle(self, job: SlurmJob, partition: Partition) -> str:
        """Return Slurm's reason if the reservations leave the job too few nodes of its partition."""
        closed = self.closed(duration(job))
        if not closed or not partition.nodes:
            return ""
        if not closed.isdisjoint(job.required_nodes):
            return self._reason(job.required_nodes)
        left = self._open(closed, partition)
        if job.excluded_nodes:
            left = left.difference(job.excluded_nodes)
        return self._reason(partition.nodes) if len(left) < max(job.min_nodes, 1) else ""

    def _open(self, closed: frozenset[str], partition: Partition) -> frozenset[str]:
        key = (len(closed), partition.name)  # a longer job has a superset: equal sizes are equal sets
        if key not in self._left:
            self._left[key] = frozenset(partition.nodes) - closed
        return self._left[key]

    def _reason(self, nodes: Sequence[str]) -> str:
        """Return the reason of select_nodes() in node_scheduler.c: maintenance of a whole partition has its own."""
        maintained = any("MAINT" in one.flags and set(nodes).issubset(one.nodes) for one in self._reservations)
        return "ReqNodeNotAvail" if maintained else "Resources"
