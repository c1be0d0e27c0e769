"""The costs of the placements of a job by the simulator's own model of how jobs slow each other: a teacher for the network.

The model has what no scheduler observes, such as the gradients of each job and its part of each link, so this is no placement
style. A network that imitates it has the observations of the controller alone (Chen et al., Learning by cheating, CoRL '19).

The cost of a placement is the sum of the slowdowns of all running jobs after the start, plus `FREE_GPU_COST` for each GPU that
stays free on its servers, as in `scheduler/place/learned/partners.py`.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.gpu_islands import choose
from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.feasible_shares import FeasibleShares
from tiresias.scheduler.place.learned.partners import FREE_GPU_COST
from tiresias.scheduler.place.learned.placement_agents import AgentStep
from tiresias.simulator.contention.server_loads import PartOfServer
from tiresias.simulator.placement_environment import PlacementEnvironment, PlacementView

_PARTNERS = 2  # examined for each server, with links in use and without
_NO_PARTNER = (
    5.0  # cost of a server that cannot hold the job with one more below its leaf switch; and 1 for each GPU beyond it
)


def parts_of(view: PlacementView, placement: Placement) -> tuple[PartOfServer, ...]:
    """Return the GPUs of the sockets of each server that the simulator would take."""
    sockets = (view.free.shape[1],)
    return tuple(
        PartOfServer(node, tuple(choose(tuple(view.free[node].tolist()), sockets, gpus).taken))
        for node, gpus in placement
    )


class PlacementCosts:
    """The costs of the placements of the next job.

    Args:
        environment: The cluster, before the first task of the job is placed.
        graphs: Of the cluster.
    """

    def __init__(self, environment: PlacementEnvironment, graphs: ClusterGraph) -> None:
        self._environment, self._graphs, self._view = environment, graphs, environment.observe()
        self._free: Ints = self._view.free.sum(1)
        self._is_idle = self._free == environment.cluster.topology().gpus
        self._crossed = _crossed(environment, self._view)
        self._known: dict[Placement, float] = {}

    def of_actions(self, step: AgentStep, shares: FeasibleShares) -> Floats:
        """Return the least cost that each action of an agent can lead to, inf where it is not feasible; shape as `step.allowed`.

        Args:
            step: What the agent selects from.
            shares: Of the job so far.
        """
        own = self._graphs.parts[step.agent].servers
        found = np.full(len(step.allowed), np.inf)
        found[: len(own)] = self._of_servers(own, shares)
        for group in np.flatnonzero(step.allowed[len(own) :]).tolist():
            found[len(own) + group] = self._of_servers(self._graphs.parts[group].servers, shares).min()
        return np.where(step.allowed, found, np.inf)

    def _of_servers(self, servers: Ints, shares: FeasibleShares) -> Floats:
        """Return the cost of each server if it gets as many of the GPUs that are left as it can hold, shape (servers,)."""
        free, possible = self._free - shares.shares, shares.possible(shares.left)[servers] > 0
        found, idle = np.full(len(servers), np.inf), dict[tuple[int, int], float]()
        for at, node in enumerate(servers.tolist()):
            if not possible[at]:
                continue
            if self._is_idle[node] and not shares.shares[node]:  # idle servers below a leaf switch are alike
                key = int(self._graphs.leaf[node]), int(free[node])
                if key not in idle:
                    idle[key] = self._of_server(node, free, shares)
                found[at] = idle[key]
            else:
                found[at] = self._of_server(node, free, shares)
        return found

    def _of_server(self, node: int, free: Ints, shares: FeasibleShares) -> float:
        taken = min(int(free[node]), shares.left)
        given, lacking = dict(shares.placement()), shares.left - taken
        given[node] = given.get(node, 0) + taken
        if not lacking:
            return self._cost(given)
        partners = [
            self._cost({**given, each: given.get(each, 0) + lacking}) for each in self._partners(node, free, lacking)
        ]
        return min(partners, default=_NO_PARTNER + lacking)

    def _partners(self, node: int, free: Ints, lacking: int) -> list[int]:
        """Return the servers below the same leaf switch that hold the GPUs that are lacking and leave the fewest free."""
        rows = np.flatnonzero((self._graphs.leaf == self._graphs.leaf[node]) & (free >= lacking))
        rows = rows[rows != node]
        rows = rows[np.argsort(free[rows], kind="stable")]
        crossed = self._crossed[rows]
        return [*rows[crossed][:_PARTNERS].tolist(), *rows[~crossed][:_PARTNERS].tolist()]

    def _cost(self, given: dict[int, int]) -> float:
        placement = tuple(sorted(given.items()))
        if placement not in self._known:
            left = sum(int(self._free[node]) - gpus for node, gpus in placement)
            slowdowns = self._environment.excess_of(parts_of(self._view, placement))
            self._known[placement] = slowdowns + FREE_GPU_COST * left
        return self._known[placement]


def _crossed(environment: PlacementEnvironment, view: PlacementView) -> Bools:
    """Return on which servers a job runs that has GPUs on another server, too, shape (servers,)."""
    found = np.zeros(len(view.free), bool)
    for row in view.running:
        servers = [part.server for part in environment.parts(row)]
        found[servers] |= len(servers) > 1
    return found
