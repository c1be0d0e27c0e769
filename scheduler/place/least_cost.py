"""The fewest nodes that fit a request and, among those, the nodes with the least sum of costs. Pure.

The rule, for costs of nodes that a style computes:

1. As many nodes as `consolidate` takes for the request, on the same candidate nodes: the fewest that its limits allow.
2. Among all sets of so many nodes that have enough free GPUs together, a set with the least sum of costs.
3. Ties: where `consolidate`, limited to nodes that cost no more than the most expensive one of such a set, finds a set with that
   sum, it is taken, with its order by groups of nodes and by free GPUs. So equal costs mean the nodes of `consolidate`.

O(nodes log nodes) where the nodes with the least costs suffice. Else a table over numbers of nodes and of missing GPUs is filled:
O(nodes + sizes x count^2 x missing), with `missing` = count x free GPUs of the emptiest node - GPUs of the job; where the table
would have more than MOST_STATES entries, the nodes are those of `consolidate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats, Ints, Request
from tiresias.scheduler.place import consolidate
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.equal_shares import on_equal_shares

MOST_STATES = 200_000  # of the table
_DIGITS = 9  # of costs: smaller differences are rounding


def cheapest(request: Request, gpus: int, candidates: CandidateNodes, cost: Floats) -> Placement | None:
    """Return a placement by the rule above; None: the job does not fit.

    Args:
        request: Limits on the number of nodes, and GPUs of each.
        gpus: GPUs of the job.
        candidates: The nodes.
        cost: Of each node, 0 or more and finite, shape (nodes,).
    """
    fewest, cost = consolidated(request, gpus, candidates), np.round(cost, _DIGITS)
    if fewest is None or not (cost[candidates.fit > 0] > 0.0).any():
        return fewest
    fit, each = candidates.fit, request.gpus_per_node
    nodes = _cheapest_nodes(np.where(fit >= each, each, 0) if each else fit, cost, len(fewest), gpus)
    if nodes is None:
        return fewest
    alike = consolidated(request, gpus, candidates.limited(cost <= cost[nodes].max()))
    least = float(cost[nodes].sum())
    if alike and len(alike) == len(nodes) and round(_sum(cost, alike) - least, _DIGITS) <= 0.0:
        return alike
    if each:
        return tuple((node, each) for node in np.sort(nodes).tolist())
    return consolidate.fill(nodes[np.argsort(-fit[nodes], kind="stable")], fit, len(nodes), gpus)


def consolidated(request: Request, gpus: int, candidates: CandidateNodes) -> Placement | None:
    """Return the placement of `consolidate`, also with the same number of GPUs on each node; None: the job does not fit."""
    if request.gpus_per_node:
        return on_equal_shares(request, gpus, candidates, consolidate.equal)
    if request.min_nodes <= 1 and (node := candidates.tightest(gpus)) is not None:
        return ((node, gpus),)
    return consolidate.uneven(request, gpus, candidates)


def _sum(cost: Floats, placement: Placement) -> float:
    return float(cost[[node for node, _ in placement]].sum())


def _cheapest_nodes(fit: Ints, cost: Floats, count: int, gpus: int) -> Ints | None:
    """Return `count` nodes with the least sum of costs that have enough GPUs together; None: the table would be too large.

    Args:
        fit: Free GPUs of each node, shape (nodes,); some `count` nodes suffice.
        cost: Shape (nodes,).
        count: The number of nodes.
        gpus: GPUs of the job.
    """
    rows = np.flatnonzero(fit)
    rows = rows[np.lexsort((-fit[rows], cost[rows]))]
    if fit[rows[:count]].sum() >= gpus:
        return rows[:count]
    missing = count * int(fit.max()) - gpus
    if (count + 1) * (missing + 1) > MOST_STATES:
        return None
    return _SumTable(count, missing).filled(fit, cost, rows)


class _Level(NamedTuple):
    """Nodes with equal free GPUs, and how many of them each state of the table takes, shape (count + 1, missing + 1)."""

    nodes: Ints
    short: int  # GPUs that each of them has less than the emptiest node
    taken: Ints


class _SumTable:
    """The least sum of costs of each number of nodes that miss so many GPUs together, against nodes that are as free as any.

    Args:
        count: The number of nodes to choose.
        missing: The most GPUs that they may miss together.
    """

    def __init__(self, count: int, missing: int) -> None:
        self._count, self._missing = count, missing
        self._least = np.full((count + 1, missing + 1), np.inf)
        self._least[0, 0] = 0.0

    def filled(self, fit: Ints, cost: Floats, rows: Ints) -> Ints:
        """Return the chosen nodes. rows: nodes with free GPUs, in ascending order of their costs."""
        most = int(fit.max())
        levels = [
            self._with_level(rows[fit[rows] == free][: self._count], cost, most - free)
            for free in range(most, max(most - self._missing, 1) - 1, -1)
        ]
        return self._chosen(levels)

    def _with_level(self, nodes: Ints, cost: Floats, short: int) -> _Level:
        """Allow nodes that have so many GPUs less, the cheapest first."""
        before, taken = self._least.copy(), np.zeros(self._least.shape, np.int64)
        sums = np.concatenate(([0.0], np.cumsum(cost[nodes])))
        for number in range(1, min(len(nodes), self._missing // short if short else self._count) + 1):
            reached = np.s_[number:, number * short :]
            reaching = before[: self._count + 1 - number, : self._missing + 1 - number * short] + sums[number]
            better = reaching < self._least[reached]
            self._least[reached][better], taken[reached][better] = reaching[better], number
        return _Level(nodes, short, taken)

    def _chosen(self, levels: list[_Level]) -> Ints:
        count, missing = self._count, int(self._least[self._count].argmin())
        parts = []
        for level in reversed(levels):
            number = int(level.taken[count, missing])
            parts.append(level.nodes[:number])
            count, missing = count - number, missing - number * level.short
        return np.concatenate(parts)
