"""The slowdown of every running job, computed from nothing but the formulas: an oracle for the simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tiresias.simulator import ClusterSize, Trace
from tiresias.simulator.contention.job_profiles import profile_of
from tiresias.simulator.contention.simulated_contention import SimulatedContention
from tiresias.simulator.topologies.network import Network
from tiresias.simulator.topologies.routes import Routes

Place = dict[int, list[int]]  # node -> GPUs on each socket


def slowdowns(
    jobs: Trace, cluster: ClusterSize, running: Mapping[int, Place], contention: SimulatedContention
) -> dict[int, float]:
    """Return the seconds that a second of work takes, by row."""
    users = _users(cluster.network, running)
    return {row: _slowdown(row, jobs, cluster, running, contention, users) for row in running}


def _users(network: Network | None, running: Mapping[int, Place]) -> dict[int, list[int]]:
    """The jobs that use each link."""
    found: dict[int, list[int]] = {}
    routes = Routes(network) if network else None
    for row, place in running.items():
        order = sorted(place)
        ring = zip(order, order[1:] + order[:1], strict=True) if routes and len(order) > 1 else ()
        for link in {link for one, other in ring if routes for link in routes.path(one, other)}:
            found.setdefault(link, []).append(row)
    return found


def _slowdown(
    row: int, jobs: Trace, cluster: ClusterSize, running: Mapping[int, Place], contention: SimulatedContention,
    users: Mapping[int, list[int]],
) -> float:  # fmt: skip
    profile, workers = profile_of(jobs.model[row]), int(jobs.gpus[row])
    interference = max(_beside(row, node, jobs, cluster, running, contention) for node in running[row])
    network = cluster.network
    exchanged = 2.0 * (workers - 1) / workers * profile.gradients
    parts = (
        [float(network.links.bandwidth[link]) / len(rows) for link, rows in users.items() if row in rows]
        if network
        else []
    )
    exchange = exchanged / min(parts) if parts else 0.0
    fits = workers <= max(int(each) for each in cluster.node_gpus)
    best = 0.0 if network is None or fits else exchanged / _fastest(network)
    return (profile.compute * interference + exchange) / (profile.compute + best)


def _fastest(network: Network) -> float:
    count = len(network.servers)
    links = zip(*(column.tolist() for column in network.links[:3]), strict=True)
    return max(float(bandwidth) for one, other, bandwidth in links if min(one, other) < count)


def _beside(
    row: int,
    node: int,
    jobs: Trace,
    cluster: ClusterSize,
    running: Mapping[int, Place],
    contention: SimulatedContention,
) -> float:
    """The factor by which the others slow the slowest worker of a job on one node."""
    if contention.interference is None:
        return 1.0
    kind, own = cluster.kinds[node], profile_of(jobs.model[row])
    cpu, pcie = [0.0] * kind.sockets, [0.0] * kind.sockets
    for other, place in running.items():
        for socket, gpus in enumerate(place.get(node, []) if other != row else []):
            profile = profile_of(jobs.model[other])
            cpu[socket] += gpus * profile.cores / kind.cores
            pcie[socket] += gpus * profile.pcie / kind.pcie
    a, _, _, d = map(float, contention.interference.coefficients)
    b, worst = contention.interference.exponent, 1.0
    for socket, gpus in enumerate(running[row][node]):
        u, p = gpus * own.cores / kind.cores, gpus * own.pcie / kind.pcie
        others = cpu[socket] + sum(max(use - 1.0, 0.0) for at, use in enumerate(cpu) if at != socket)
        if gpus:
            excess = a * (math.exp(b * (u + others)) - math.exp(b * u)) + d * p * pcie[socket]
            worst = max(worst, min(1.0 + float(excess), 1000.0))
    return worst
