"""The estimated cost of a server for a job, together with the server that would hold what it cannot hold itself. Pure.

A job on several servers exchanges gradients over the links of all of them, and the jobs on a link share it. So the cost is the
expected interference on the servers, plus a constant for each link that another job uses already, plus one for each GPU that stays
free on a server, as this divides what later jobs can get on one server.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.feasible_shares import FeasibleShares

FREE_GPU_COST = 0.25
LINK_COST = 0.75  # of a link that another job uses
LEAF_COST = 1.5  # of a server below another leaf switch than those that the job has already
MOST_COST = 8.0
_NO_PARTNER = 4.0  # cost of a server that has no partner; and a part of 1 by the GPUs that are lacking


class Partners(NamedTuple):
    """The partners of some servers, arrays of shape (servers,).

    Attributes:
        left_over: GPUs that the partner has left; inf where there is none, or the server is full; 0 where none is necessary.
        is_crossed: Whether its link is in use, or there is none.
        cost: The estimated cost of the server with its partner.
    """

    left_over: Floats
    is_crossed: Bools
    cost: Floats


def best_partners(
    graphs: ClusterGraph, shares: FeasibleShares, rest: Ints, expected: Floats, crossed: Bools
) -> Partners:
    """Return the partner of each server with the least cost, below the same leaf switch.

    Args:
        graphs: Of the cluster.
        shares: Of the job so far.
        rest: GPUs that each server has free for the job, shape (nodes,).
        expected: The sum of the slowdowns that are expected on each server, shape (nodes,).
        crossed: Whether another job uses the link of each server, shape (nodes,).
    """
    left, short = shares.left, np.flatnonzero((rest > 0) & (rest < shares.left))
    own = expected + FREE_GPU_COST * np.maximum(rest - left, 0)
    link = LINK_COST * crossed
    if shares.used:
        own += link + LEAF_COST * (np.bincount(graphs.leaf, shares.shares)[graphs.leaf] == 0)
    left_over, is_crossed = np.where(rest > 0, 0.0, np.inf), rest <= 0
    own[is_crossed] = MOST_COST
    if len(short):
        found, there, beyond, cost = _cheapest(graphs, left, rest, expected + LINK_COST * crossed, short)
        left_over[short] = np.where(found, beyond, np.inf)
        is_crossed[short] = ~found | crossed[there]
        lost = _NO_PARTNER + (left - rest[short]) / left
        own[short] += np.where(found, cost, lost) + (0.0 if shares.used else link[short])
    return Partners(left_over, is_crossed, np.minimum(own, MOST_COST))


def _cheapest(
    graphs: ClusterGraph, left: int, rest: Ints, cost: Floats, rows: Ints
) -> tuple[Bools, Ints, Ints, Floats]:
    """Return whether some servers have a partner, its row, the GPUs that it has left, and its cost, shape (rows,) each.

    Args:
        graphs: Of the cluster.
        left: GPUs of the job that are left to place.
        rest: GPUs that each server has free for the job, shape (nodes,).
        cost: Of each server as a partner, without that of the GPUs that it has left, shape (nodes,).
        rows: Servers that hold some of the GPUs.
    """
    others, present = graphs.leaf_servers
    at, each = graphs.leaf[rows], np.arange(len(rows))
    there = others[at]
    beyond = rest[there] - (left - rest[rows])[:, None]
    usable = present[at] & (there != rows[:, None]) & (beyond >= 0)
    costs = np.where(usable, cost[there] + FREE_GPU_COST * beyond, np.inf)
    best = costs.argmin(1)
    return usable[each, best], there[each, best], beyond[each, best], costs[each, best]
