"""What the best placement would be: a reference for tests and benchmarks, which `decide` never asks.

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
    """workers: on each node. servers: the node of each parameter server. largest: traffic of the busiest node."""

    workers: tuple[int, ...]
    servers: tuple[int, ...]
    largest: float


@dataclass(frozen=True, slots=True)
class Packed:
    """nodes: rows, rising. leaves: how many switches they hang on. left: GPUs that the job does not need there."""

    nodes: tuple[int, ...]
    leaves: int
    left: int


def place(free: Ints, traffic: Floats, tensors: Floats, workers: int, seconds: float = np.inf) -> Balanced | None:
    """Appendix D: parameter servers and workers so that the busiest node has the least traffic. None: too few GPUs.

    free, traffic: GPUs and the traffic that is there already, shape (nodes,). tensors: what each server holds, shape (servers,),
    in the unit of traffic; together the model's size M. seconds: TimeoutError when that is not enough.

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
    """T_i of a placement; shape (nodes,). workers: on each node; hosts: the node of each server."""
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
    """What `consolidate` promises: the fewest nodes, then the fewest leaf switches, then the least room left over.

    fit: GPUs that each node can give; leaf: index of its switch; shape (nodes,). In one sum: a switch weighs more than all room,
    a node more than all switches.
    """
    room, of = np.maximum(fit, 0).astype(np.float64), np.arange(int(leaf.max()) + 1)
    count, leaves = len(room), len(of)
    cost = np.concatenate((room + (room.sum() + 1) * (leaves + 1), np.full(leaves, room.sum() + 1)))
    under = (leaf[:, None] == of).astype(np.float64)
    # enough GPUs; a leaf of which a node is used is used
    rows = np.block([[room[None], np.zeros((1, leaves))], [-np.eye(count), under]])
    low = np.append(float(gpus), np.zeros(count))
    found = _solve(cost, np.append(room > 0, np.ones(leaves)), rows, low, np.full(len(low), np.inf), seconds)
    if found is None:
        return None
    nodes = np.flatnonzero(found[:count] > 0.5)
    return Packed(tuple(nodes.tolist()), len(np.unique(leaf[nodes])), int(room[nodes].sum()) - gpus)


def _solve(cost: Floats, upper: Floats, rows: Floats, low: Floats, high: Floats, seconds: float) -> Floats | None:
    """The cheapest x >= 0 with low <= rows x <= high, whole numbers where `upper` is finite; None: there is none."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise TiresiasError("the exact placement needs scipy: pip install 'slurm-tiresias[optimum]'") from None

    options = {"mip_rel_gap": 0.0} | ({"time_limit": seconds} if seconds < np.inf else {})
    answer = milp(
        cost, integrality=np.isfinite(upper), bounds=Bounds(0, upper), constraints=LinearConstraint(rows, low, high),
        options=options,
    )  # fmt: skip
    if answer.status == 1:
        raise TimeoutError(f"{seconds:g} s were not enough for {len(upper)} variables")
    assert answer.status in (0, 2), answer.message
    return None if answer.x is None else np.asarray(answer.x, np.float64)
