"""Optimal placements: a reference for tests and benchmarks. `decide` does not use them.

Both are mixed-integer programs for scipy's HiGHS, exact and too slow for a scheduler (bench/placement.py).
scipy, the extra `optimum`, is imported where it is called, as nothing else here needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.scheduler.model import Floats, Ints


@dataclass(frozen=True, slots=True)
class Balanced:
    """The placement of appendix D.

    Attributes:
        workers: Their number on each node.
        servers: The node of each parameter server.
        largest: Traffic of the node with the most traffic.
    """

    workers: tuple[int, ...]
    servers: tuple[int, ...]
    largest: float


@dataclass(frozen=True, slots=True)
class Packed:
    """The placement with the fewest nodes and switches.

    Attributes:
        nodes: Rows of the nodes, ascending.
        leaves: Number of their leaf switches.
        left: Free GPUs of these nodes that the job does not use.
    """

    nodes: tuple[int, ...]
    leaves: int
    left: int


def place(free: Ints, traffic: Floats, tensors: Floats, workers: int, seconds: float = np.inf) -> Balanced | None:
    """Place parameter servers and workers so that the largest traffic of a node is minimal (appendix D). None: too few GPUs.

    Args:
        free: Free GPUs of each node, shape (nodes,).
        traffic: Present traffic of each node, shape (nodes,).
        tensors: The part of the model on each server, shape (servers,), in the unit of `traffic`; their sum is the model's size M.
        workers: Number of workers.
        seconds: Time limit.

    Raises:
        TimeoutError: The time limit is exceeded.

    T_i = t_i + w_i (M - S_i) + S_i (W - w_i) with S_i = sum_j p_ji s_j is t_i + M w_i + W S_i - 2 sum_j s_j (w_i p_ji). The
    products z_ji = w_i p_ji become variables with z_ji <= w_i and z_ji <= min(g_i, W) p_ji. They only make traffic less, so
    that a minimum has them as large as these allow, which is the product itself; bounds from below are not needed.
    """
    count, servers = len(free), len(tensors)
    most = np.minimum(free, workers).astype(np.float64)
    upper = np.concatenate((most, np.ones(servers * count), np.tile(most, servers), [np.inf]))
    cost = np.append(np.zeros(len(upper) - 1), 1.0)
    found = _solve(cost, upper, *_balance(most, np.asarray(traffic, np.float64), tensors, workers), seconds)
    if found is None:
        return None
    placed = found[:count].round().astype(np.int64)
    hosts = found[count : count + servers * count].reshape(servers, count).argmax(axis=1)
    return Balanced(tuple(placed.tolist()), tuple(hosts.tolist()), float(loads(traffic, tensors, placed, hosts).max()))


def loads(traffic: Floats, tensors: Floats, workers: Ints, hosts: Ints) -> Floats:
    """Return the traffic T_i of each node, shape (nodes,). workers: their number on each node; hosts: the node of each server."""
    held = np.bincount(hosts, tensors, len(workers))
    total: Floats = traffic + workers * (tensors.sum() - held) + held * (workers.sum() - workers)
    return total


def _balance(most: Floats, traffic: Floats, tensors: Floats, workers: int) -> tuple[Floats, Floats, Floats]:
    """Rows over the columns w (nodes), p and z (servers x nodes) and the largest traffic; what each is at least and at most."""
    count, servers, pairs = len(most), len(tensors), len(most) * len(tensors)
    nodes, one = np.eye(count), np.eye(pairs)
    held = np.kron(tensors[None], nodes)  # S_i of p
    rows = np.block(
        [
            [-tensors.sum() * nodes, -workers * held, 2 * held, np.ones((count, 1))],
            [np.ones((1, count)), np.zeros((1, 2 * pairs + 1))],  # (2) all workers; (1), free GPUs, are bounds
            # (3)
            [
                np.zeros((servers, count)),
                np.kron(np.eye(servers), np.ones((1, count))),
                np.zeros((servers, pairs + 1)),
            ],
            [np.tile(nodes, (servers, 1)), np.zeros((pairs, pairs)), -one, np.zeros((pairs, 1))],
            [np.zeros((pairs, count)), one * np.tile(most, servers), -one, np.zeros((pairs, 1))],
        ]
    )
    exact = np.concatenate(([float(workers)], np.ones(servers)))
    low = np.concatenate((traffic, exact, np.zeros(2 * pairs)))
    high = np.concatenate((np.full(count, np.inf), exact, np.full(2 * pairs, np.inf)))
    return rows, low, high


def pack(fit: Ints, leaf: Ints, gpus: int, seconds: float = np.inf) -> Packed | None:
    """Find the fewest nodes, then the fewest leaf switches, then the fewest GPUs left over, as `consolidate` aims to.

    All three are one sum: a switch weighs more than all GPUs, a node more than all switches.

    Args:
        fit: GPUs that each node has free for the job, shape (nodes,).
        leaf: Index of each node's leaf switch, shape (nodes,).
        gpus: GPUs of the job.
        seconds: Time limit.
    """
    free, of = np.maximum(fit, 0).astype(np.float64), np.arange(int(leaf.max()) + 1)
    count, leaves = len(free), len(of)
    cost = np.concatenate((free + (free.sum() + 1) * (leaves + 1), np.full(leaves, free.sum() + 1)))
    under = (leaf[:, None] == of).astype(np.float64)
    # enough GPUs; a leaf of which a node is used is used
    rows = np.block([[free[None], np.zeros((1, leaves))], [-np.eye(count), under]])
    low = np.append(float(gpus), np.zeros(count))
    found = _solve(cost, np.append(free > 0, np.ones(leaves)), rows, low, np.full(len(low), np.inf), seconds)
    if found is None:
        return None
    nodes = np.flatnonzero(found[:count] > 0.5)
    return Packed(tuple(nodes.tolist()), len(np.unique(leaf[nodes])), int(free[nodes].sum()) - gpus)


def _solve(cost: Floats, upper: Floats, rows: Floats, low: Floats, high: Floats, seconds: float) -> Floats | None:
    """The cheapest x >= 0 with low <= rows x <= high, whole numbers where `upper` is finite; None: there is none."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise TiresiasError("the exact placement needs scipy: pip install 'slurm-tiresias[optimum]'") from None

    options = {"mip_rel_gap": 0.0} | ({"time_limit": seconds} if seconds < np.inf else {})
    answer = milp(
        cost,
        integrality=np.isfinite(upper),
        bounds=Bounds(0, upper),
        constraints=LinearConstraint(rows, low, high),
        options=options,
    )
    if answer.status == 1:
        raise TimeoutError(f"{seconds:g} s were not enough for {len(upper)} variables")
    assert answer.status in (0, 2), answer.message
    return None if answer.x is None else np.asarray(answer.x, np.float64)
