"""Placement style fastest_nodes: the least expected step time, by the measured speeds of nodes and the distance between them.

A synchronous job is as slow as its slowest node, and slower on several nodes than on one. So the expected step time of a placement
is slowness of its slowest node ^ sensitivity of the job x locality penalty ^ levels that it crosses. No level is crossed on one
node, one on several nodes of a leaf switch, one more for each level of the topology above. PAL (Jain et al., SC '24, section III)
minimises the same product, over single GPUs and with one level. The choice is exact, by steps of STEP; ties:

1. The fewest levels, and on these the fewest nodes.
2. The slowest nodes, by steps: a node that is faster than the slowest one of the job is of no use to it, and a job that is not
   sensitive leaves the fast nodes to others.
3. The nodes of `consolidate` (`least_cost.py`).

A job that is never to be apart takes as many nodes as `consolidate` takes for it, the fewest levels, and among these the fastest.
Where no speeds are known it is the placement of `consolidate`. Pure. O(levels x log of the steps x nodes).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Request
from tiresias.scheduler.place import least_cost
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement

STEP = 0.02  # of the logarithm of the slowness; a smaller difference is none


def fastest_nodes(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return a placement with the least expected step time; None: the job does not fit."""
    slowness, needs = candidates.context.slowness, candidates.context.kind.speed
    fewest = least_cost.consolidated(request, gpus, candidates)
    if slowness is None:
        return fewest
    if math.isinf(needs.locality_penalty):
        if fewest is None:
            return None
        request = replace(request, max_nodes=len(fewest))
    steps = _steps(slowness)
    search = _Search(request, gpus, candidates, np.rint(needs.sensitivity * steps).astype(np.int64))
    found = search.best(math.log(needs.locality_penalty) / STEP)
    if found is None:
        return None
    among = search.nodes(*found)
    waste = (steps[among].max() - steps).clip(0).astype(np.float64)
    return least_cost.cheapest(request, gpus, candidates.limited(among), waste)


def _steps(slowness: Floats) -> Ints:
    return np.rint(np.log(slowness) / STEP).astype(np.int64)


class _Search:
    """The fewest levels that a placement crosses, by the slowest node that it may have.

    Args:
        request: Limits on the number of nodes, and GPUs of each.
        gpus: GPUs of the job.
        candidates: The nodes.
        steps: The expected step time of the job on each node, in steps, shape (nodes,).
    """

    def __init__(self, request: Request, gpus: int, candidates: CandidateNodes, steps: Ints) -> None:
        self._request, self._gpus, self._all, self._steps = request, gpus, candidates, steps
        self._limits = np.unique(steps[candidates.fit > 0])
        self._most = 1 + sum(1 for _ in candidates.levels())  # levels; one more where not even all nodes suffice
        self._known: dict[int, int] = {}

    def best(self, penalty: float) -> tuple[int, int] | None:
        """Return the levels of the best placement and the steps of the slowest node; None: the job does not fit.

        Args:
            penalty: Steps for each level; inf: fewer levels come first.
        """
        found: list[tuple[float, int, int]] = []
        for level in range(self._most + 1):
            at = bisect_left(range(len(self._limits)), True, key=lambda at: self._fewest_levels(at) <= level)
            if at < len(self._limits):
                steps = int(self._limits[at])
                found.append((level * penalty + steps if level else float(steps), level, steps))
        _, level, steps = min(found, default=(0.0, -1, 0))
        return None if level < 0 else (level, steps)

    def nodes(self, level: int, steps: int) -> Bools:
        """Return the nodes among which a placement that crosses so many levels is chosen, shape (nodes,)."""
        among = self._steps <= steps
        if level == 0:
            return np.asarray(among & (self._all.fit >= self._gpus))
        if level == self._most:
            return among
        limited = self._all.limited(among)
        counts = [*limited.levels()][level - 1]
        enough = np.flatnonzero(self._enough(counts.at_least))
        groups = counts.of[[node for node, _ in least_cost.consolidated(self._request, self._gpus, limited) or ()]]
        is_near = len(groups) > 0 and (groups == groups[0]).all()
        group = groups[0] if is_near else enough[counts.free[enough].argmin()]
        return np.asarray(among & (counts.of == group))

    def _fewest_levels(self, at: int) -> int:
        if at not in self._known:
            self._known[at] = self._levels_within(int(self._limits[at]))
        return self._known[at]

    def _levels_within(self, steps: int) -> int:
        limited = self._all.limited(self._steps <= steps)
        if self._fits_on_one and (limited.fit >= self._gpus).any():
            return 0
        for level, counts in enumerate(limited.levels(), 1):
            if self._enough(counts.at_least).any():
                return level
        return self._most + (not self._enough(np.array(counts.in_all)[:, None]).all())

    @property
    def _fits_on_one(self) -> bool:
        request = self._request
        return request.min_nodes <= 1 and request.gpus_per_node in (0, self._gpus)

    def _enough(self, at_least: Ints) -> Bools:
        """Return which groups have nodes that suffice, shape (groups,). at_least: as in `GroupCounts`."""
        request, gpus, each = self._request, self._gpus, self._request.gpus_per_node
        most = min(request.max_nodes or gpus, gpus)
        least = gpus // each if each else max(request.min_nodes, 1)
        if (each and gpus % each) or not max(request.min_nodes, 1) <= least <= most or max(each, 1) > len(at_least):
            return np.zeros(at_least.shape[1], np.bool_)
        together = each * least if each else np.minimum(at_least, most).sum(axis=0)
        return np.asarray((at_least[max(each, 1) - 1] >= least) & (together >= gpus))
