"""What the agents observe: features of servers, of a task, and of what each server and each partition means for the task.

All features are about 0 to 1: GPUs are counted in nodes of 8, CPUs and memory as parts of the largest node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Request
from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.feasible_shares import FeasibleShares
from tiresias.scheduler.place.learned.partners import MOST_COST, Partners, best_partners
from tiresias.scheduler.place.learned.placement_network import NetworkSizes

ESTIMATED_COST = "estimated_cost"
FEATURES = {
    "server": ("is_server", "gpus", "free_gpus", "free_gpus_share", "free_cpus", "free_memory"),
    "choice": ("feasible_gpus", "free_for_job", "gpus_of_job", "left_over", "own_slowdown", "slowdown_of_others",
               "link_load", "is_crossed", "partner_left_over", "partner_is_crossed", ESTIMATED_COST),
    "reach": ("feasible_servers", "largest_free", "free_for_job", "gpus_of_job", "least_slowdown", "left_over", "tightest",
              "fewest_servers", "uncrossed_left_over", "uncrossed_tightest", "uncrossed_fewest_servers", ESTIMATED_COST),
    "task": ("gpus_left", "gpus", "gpus_log", "nodes_used", "gpus_per_node", "cpus_per_gpu", "memory_per_gpu",
             "own_slowdown", "slowdown_of_others", "sensitivity", "aggressiveness"),
}  # fmt: skip
NODE_GPUS = 8.0  # in which GPUs are counted
_MOST_SLOWDOWN = 4.0


def network_sizes(width: int = 16, server_layers: int = 2, partition_layers: int = 2, hidden: int = 64) -> NetworkSizes:
    """Return the sizes of a network with these features."""
    server, choice, reach, task = (len(FEATURES[name]) for name in ("server", "choice", "reach", "task"))
    return NetworkSizes(server, choice, reach, task, width, server_layers, partition_layers, hidden)


@dataclass(frozen=True, slots=True, eq=False)
class JobTerms:
    """What holds for all tasks of a job.

    Attributes:
        request: Of the job.
        gpus: Of the job.
        own: Expected slowdown of the job on each node, 0.02 for 2%, shape (nodes,).
        others: Slowdowns of the jobs there by the job, summed, shape (nodes,).
        capacity: GPUs, CPUs and MiB of the largest node, shape (3,).
        sensitivity: Expected slowdown of the job's kind beside one job of another kind, the mean over all kinds.
        aggressiveness: That of a job of another kind beside the job's kind.
    """

    request: Request
    gpus: int
    own: Floats
    others: Floats
    capacity: Floats
    sensitivity: float = 0.0
    aggressiveness: float = 0.0


def server_features(graphs: ClusterGraph, gpus: Ints, free: Floats, capacity: Floats) -> Array:
    """Return the features of servers, then switches, shape (servers + switches, server features).

    Args:
        graphs: Of the cluster.
        gpus: GPUs of each node, shape (nodes,).
        free: GPUs, CPUs and MiB that each node has free, shape (nodes, 3).
        capacity: Of the largest node, shape (3,).
    """
    found = np.zeros((graphs.inner.nodes, len(FEATURES["server"])), np.float32)
    found[: len(gpus)] = of_servers(gpus, free, capacity)
    return found


def of_servers(gpus: Ints, free: Floats, capacity: Floats) -> Array:
    """Return the features of some servers, shape (servers, server features); the arguments are those of `server_features`."""
    found = np.ones((len(gpus), len(FEATURES["server"])), np.float32)
    found[:, 1] = gpus / NODE_GPUS
    found[:, 2] = free[:, 0] / NODE_GPUS
    found[:, 3] = free[:, 0] / np.maximum(gpus, 1)
    for at, column in ((4, 1), (5, 2)):
        limited = 0 < capacity[column] < np.inf  # otherwise it is not known, or has no limit
        found[:, at] = free[:, column] / capacity[column] if limited else 1.0
    return found


class TaskObservation:
    """What the agents observe of the next task of a job, at this moment.

    Attributes:
        possible: GPUs of the task that each node may get, shape (nodes,); 0: it may get none.
        task: Features of the task, shape (1, task features).
    """

    def __init__(
        self, graphs: ClusterGraph, terms: JobTerms, shares: FeasibleShares, fit: Ints, task: int, link_load: Array
    ) -> None:
        """Observe.

        Args:
            graphs: Of the cluster.
            terms: Of the job.
            shares: Of the job so far.
            fit: GPUs that each node has free for the job, shape (nodes,).
            task: GPUs of the task.
            link_load: Load of the link of each node to its leaf switch, shape (nodes,).
        """
        self._link_load, self._crossed = link_load, link_load > 0.0
        self._graphs, self._terms, self._shares = graphs, terms, shares
        self.possible = shares.possible(task)
        self._rest = fit - shares.shares if shares.used else fit
        self.task = _task(terms, shares)

    def choice(self, rows: Ints) -> Array:
        """Return what some nodes mean for the task, shape (rows, choice features)."""
        found, rest = np.empty((len(rows), len(FEATURES["choice"])), np.float32), self._rest[rows]
        found[:, 0], found[:, 1] = self.possible[rows], rest
        found[:, 2], found[:, 3] = self._shares.shares[rows], rest
        found[:, 3] -= self._shares.left
        found[:, :4] /= NODE_GPUS
        np.clip(found[:, 3], -1, 1, out=found[:, 3])
        found[:, 4] = np.minimum(self._terms.own[rows], _MOST_SLOWDOWN)
        found[:, 5] = np.minimum(self._terms.others[rows], _MOST_SLOWDOWN)
        found[:, 6], found[:, 7] = self._link_load[rows], self._crossed[rows]
        partners = self._partners
        found[:, 8] = np.clip(partners.left_over[rows] / NODE_GPUS, 0.0, 1.0)
        found[:, 9], found[:, 10] = partners.is_crossed[rows], partners.cost[rows]
        return found

    @cached_property
    def _partners(self) -> Partners:
        """The partner of each node."""
        expected = self._terms.own + self._terms.others
        return best_partners(self._graphs, self._shares, self._rest, expected, self._crossed)

    def reach(self) -> Array:
        """Return what the partitions mean for the task, shape (partitions, reach features)."""
        rows, present = self._graphs.padded
        there, size = present[..., 0], rows.shape[1]
        feasible, rest = (self.possible[rows] > 0) * there, self._rest[rows] * there
        found = np.empty((len(rows), len(FEATURES["reach"])), np.float32)
        found[:, 0], found[:, 1], found[:, 2] = (
            feasible.sum(1) / size,
            rest.max(1) / NODE_GPUS,
            rest.sum(1) / (NODE_GPUS * size),
        )
        found[:, 3] = (self._shares.shares[rows] * there).sum(1) / NODE_GPUS if self._shares.used else 0
        slowdown = np.minimum(self._terms.own + self._terms.others, 2 * _MOST_SLOWDOWN)
        found[:, 4] = np.where(feasible > 0, slowdown[rows], 2 * _MOST_SLOWDOWN).min(1)
        found[:, 5], found[:, 6], found[:, 7] = _fit_of_rest(rest, self._shares.left)
        found[:, 8], found[:, 9], found[:, 10] = _fit_of_rest(rest * ~self._crossed[rows], self._shares.left)
        found[:, 11] = np.where(feasible > 0, self._partners.cost[rows], MOST_COST).min(1)
        return found

    def feasible_partitions(self) -> Bools:
        """Return the partitions of which a node may get GPUs, shape (partitions,)."""
        found: Bools = np.bincount(self._graphs.partition, self.possible) > 0
        return found


def _fit_of_rest(rest: Floats, left: int) -> tuple[Floats, Floats, Floats]:
    """Return the features left_over, tightest and fewest_servers of partitions, shape (partitions,) each.

    They are: the most GPUs that a server has beyond those that are left to place, from -1 to 1; the fewest GPUs beyond them on a
    server that has enough, 1 if none has; and the fewest servers that hold them together, 1 if all do not.

    Args:
        rest: GPUs that each server has free for the job, shape (partitions, servers).
        left: GPUs that are left to place.
    """
    beyond = rest - left
    tightest = np.where(beyond >= 0, beyond, NODE_GPUS).min(1)
    enough = np.cumsum(-np.sort(-rest, 1), 1) >= left
    fewest = np.where(enough[:, -1], enough.argmax(1) + 1, NODE_GPUS)
    return (
        np.clip(beyond.max(1) / NODE_GPUS, -1, 1),
        np.minimum(tightest / NODE_GPUS, 1),
        np.minimum(fewest / NODE_GPUS, 1),
    )


def _task(terms: JobTerms, shares: FeasibleShares) -> Array:
    request, gpus, cores, memory = terms.request, terms.gpus, *(max(float(each), 1.0) for each in terms.capacity[1:])
    amount = request.memory_per_gpu or request.memory_per_node / gpus
    expected = (float(terms.own.mean()), float(terms.others.mean()), terms.sensitivity, terms.aggressiveness)
    slowdown = (min(each, _MOST_SLOWDOWN) for each in expected)
    values = [
        min(shares.left / NODE_GPUS, 4.0), min(gpus / NODE_GPUS, 4.0), np.log2(gpus) / NODE_GPUS, shares.used / NODE_GPUS,
        request.gpus_per_node / NODE_GPUS, request.cpus_per_gpu * NODE_GPUS / cores, amount * NODE_GPUS / memory, *slowdown,
    ]  # fmt: skip
    return np.array([values], np.float32)
