"""Nodes on which runs fail more often than the same programs do elsewhere.

A run counts with the weight 2^(-age / HALF_LIFE_S). What is expected of it is the rate of failures of its kind, a user's script, on
other nodes, shrunk towards the rate of all runs there: a script that fails everywhere does not count against a node. A node fails
if its runs failed in excess of that: by LEAST_EXCESS failures at least, by DEVIATIONS standard deviations, and those of LEAST_USERS
users at least, so that no user alone can make others avoid a node. The evidence decays with its age. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints

HALF_LIFE_S = 86400.0
LEAST_EXCESS = 1.5  # failures in excess of the expected ones
DEVIATIONS = 3.0
LEAST_USERS = 2
PRIOR_RUNS = 4.0  # of all runs, that count for the rate of a kind
PRIOR_RATE = 0.05  # of a cluster without runs


class NodeRuns(NamedTuple):
    """Ended runs, one row for each node that a run had; all of shape (rows,).

    Attributes:
        node: Row of the node.
        kind: Number of the user's script.
        user: Number of the user.
        failed: Whether the run failed, or its rank on this node was slow.
        age: Seconds since the end of the run.
    """

    node: Ints
    kind: Ints
    user: Ints
    failed: Bools
    age: Floats


class FailingNodes(NamedTuple):
    """The result for each node; all of shape (nodes,).

    Attributes:
        fails: Whether runs fail there.
        failures: Failed runs there, weighted by age.
        expected: What their kinds let expect of these runs.
        users: Users of the failed runs.
    """

    fails: Bools
    failures: Floats
    expected: Floats
    users: Ints


def failing_nodes(runs: NodeRuns, nodes: int) -> FailingNodes:
    """Return which nodes fail. O(rows log rows).

    Args:
        runs: Ended runs.
        nodes: The number of nodes.
    """
    weight = np.exp2(-np.maximum(runs.age, 0.0) / HALF_LIFE_S)
    failed = weight * runs.failed
    rate = _expected_rates(runs, weight, failed)
    failures, expected, variance = (
        np.bincount(runs.node, each, nodes).astype(np.float64)
        for each in (failed, weight * rate, weight**2 * rate * (1.0 - rate))
    )
    users = _users(runs, nodes)
    excess = failures - expected
    fails = (excess >= LEAST_EXCESS) & (excess >= DEVIATIONS * np.sqrt(variance)) & (users >= LEAST_USERS)
    return FailingNodes(fails, failures, expected, users)


def _expected_rates(runs: NodeRuns, weight: Floats, failed: Floats) -> Floats:
    """Return the rate of failures of each row's kind on other nodes than its own; shape (rows,)."""
    _, pair = np.unique(np.stack([runs.kind, runs.node]), axis=1, return_inverse=True)
    of_pair, of_kind = (_sums(index.reshape(-1), weight, failed) for index in (pair, runs.kind))
    elsewhere, failed_elsewhere = (kind - own for kind, own in zip(of_kind, of_pair, strict=True))
    on_others = [
        every.sum() - own for every, own in zip((weight, failed), _sums(runs.node, weight, failed), strict=True)
    ]
    every = (on_others[1] + PRIOR_RUNS * PRIOR_RATE) / (on_others[0] + PRIOR_RUNS)
    rate: Floats = (failed_elsewhere + PRIOR_RUNS * every) / (elsewhere + PRIOR_RUNS)
    return np.clip(rate, 0.0, 1.0)


def _sums(index: Ints, weight: Floats, failed: Floats) -> tuple[Floats, Floats]:
    """Return, for each row, the sums over the rows with its index."""
    all_of, failed_of = (np.bincount(index, each).astype(np.float64)[index] for each in (weight, failed))
    return all_of, failed_of


def _users(runs: NodeRuns, nodes: int) -> Ints:
    """Return the number of users whose runs failed on each node."""
    seen = np.unique(np.stack([runs.node, runs.user])[:, runs.failed], axis=1)
    return np.bincount(seen[0], minlength=nodes)
