"""Agents that place a job task by task: the agent of a partition selects one of its servers, or forwards the task to another agent.

A task is one GPU of the job, or `gpus_per_node` GPUs, or more of them for a job that would have more than TASKS_AT_MOST tasks. Or,
for fewer inferences, it is all GPUs that are left, of which a server gets as many as it can hold. The first agent is that of the
partition with the most free GPUs for the job; the agent that placed a task receives the next one. A task is forwarded once at
most, and always where its partition has no server for it. What is not feasible is never selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints
from tiresias.scheduler.place.candidate_nodes import Placement
from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.feasible_shares import FeasibleShares
from tiresias.scheduler.place.learned.placement_network import PlacementNetwork
from tiresias.scheduler.place.learned.task_observation import (
    JobTerms,
    TaskObservation,
    of_servers,
    server_features,
)

TASKS_AT_MOST = 32
_DIGITS = 3  # of scores
GPU, SERVER = "gpu", "server"
TASKS = (GPU, SERVER)  # what is placed at once


@dataclass(frozen=True, slots=True, eq=False)
class AgentStep:
    """What an agent selects from: servers of its partition, then partitions to forward to.

    Attributes:
        agent: Index of its partition.
        choice: Features of the servers, shape (servers of the partition, choice features).
        reach: Features of the partitions, shape (partitions, reach features); None: it may not forward.
        task: Features of the task, shape (1, task features).
        allowed: What is feasible, shape (servers of the partition + partitions,).
        scores: Logits, of the same shape.
    """

    agent: int
    choice: Array
    reach: Array | None
    task: Array
    allowed: Bools
    scores: Array


Select = Callable[[AgentStep], int]


def best(step: AgentStep) -> int:
    """Return the feasible action with the largest score, the first of equal ones. Smaller differences than 0.001 are rounding."""
    rows = np.flatnonzero(step.allowed)
    return int(rows[np.round(step.scores[rows], _DIGITS).argmax()])  # feasible also where scores are not finite


class EmbeddedCluster:
    """The server graph of one state of the cluster, embedded; after a change the partitions that changed are embedded again.

    Attributes:
        graphs: Of the cluster.
        network: That embeds them.
        servers: Embedded servers and switches, shape (nodes, server_embedding).
        pooled: Of each partition, shape (partitions, 2 * server_embedding).
        features: Of servers and switches, shape (nodes, server features).
        links: Features of each link, shape (links, 4).
        uplink_load: Load of the link of each node to its leaf switch, shape (nodes,).
    """

    def __init__(
        self, network: PlacementNetwork, graphs: ClusterGraph, gpus: Ints, free: Floats, capacity: Floats, load: Array
    ) -> None:
        """Embed all.

        Args:
            network: The network.
            graphs: Of the cluster.
            gpus: GPUs of each node, shape (nodes,).
            free: GPUs, CPUs and MiB that each node has free, shape (nodes, 3).
            capacity: Of the largest node, shape (3,).
            load: Load of each link, shape (links,).
        """
        self.network, self.graphs, self._gpus, self._capacity = network, graphs, gpus, capacity
        self._switches = np.zeros((graphs.upper_switches, network.sizes.width), np.float32)
        self._set_links(load)
        self.features = server_features(graphs, gpus, free, capacity)
        inner = graphs.inner.weights(self.links[graphs.inner_links])
        self.servers = network.embed_servers(graphs.inner, inner, self.features)
        rows, present = graphs.padded
        self.pooled = network.pooled(self.servers[rows], present)

    def _set_links(self, load: Array) -> None:
        self.links = self.graphs.edge_features(load)
        self.uplink_load = self.graphs.uplink_load(self.links)
        self._between = self.graphs.between.weights(self.links[self.graphs.between_links])
        self._inside: dict[int, tuple[Array, ...]] = {}

    def update(self, nodes: Ints, free: Floats, started: Sequence[Placement] = ()) -> None:
        """Set what has changed.

        Args:
            nodes: Rows of the nodes of which something was taken, those of `started` included.
            free: GPUs, CPUs and MiB that each node has free, shape (nodes, 3).
            started: The placements since the last call that use links.
        """
        if started:
            self._set_links(self.links[:, 1] + self.graphs.load_of(started))
        self.features[nodes] = of_servers(self._gpus[nodes], free[nodes], self._capacity)
        for group in np.unique(self.graphs.partition[nodes]).tolist():
            self._embed_partition(group)

    def _embed_partition(self, group: int) -> None:
        part = self.graphs.parts[group]
        if group not in self._inside:
            self._inside[group] = part.edges.weights(self.links[part.links])
        embedded = self.network.embed_servers(part.edges, self._inside[group], self.features[part.members])
        self.servers[part.members] = embedded
        servers = embedded[: len(part.servers)]
        self.pooled[group] = self.network.pooled(servers, np.ones((len(servers), 1), np.float32))

    def partitions(self, task: Array) -> Array:
        """Return the embedded partitions for a task, shape (partitions, partition_embedding). task: shape (1, task features);
        axes before these are batches."""
        switches = np.broadcast_to(self._switches, (*task.shape[:-2], *self._switches.shape))
        return self.network.embed_partitions(self.graphs.between, self._between, self.pooled, task, switches)


@dataclass(slots=True, eq=False)
class PlacementAgents:
    """The agents of all partitions, at work on one job.

    Attributes:
        cluster: The state of the cluster.
        terms: Of the job.
        fit: GPUs that each node has free for the job, shape (nodes,).
        select: Selects an action.
        tasks: One of TASKS.
        shares: What is placed.
    """

    cluster: EmbeddedCluster
    terms: JobTerms
    fit: Ints
    select: Select = best
    tasks: str = GPU
    shares: FeasibleShares = field(init=False)

    def place(self) -> Placement | None:
        """Return the placement of the job; None: it does not fit."""
        self.shares = FeasibleShares(self.terms.request, self.terms.gpus, self.fit)
        if not self.shares.possible_at_all():
            return None
        agent = int(np.bincount(self.cluster.graphs.partition, self.fit).argmax())
        task = -(-self.terms.gpus // TASKS_AT_MOST)
        while self.shares.left:
            agent = self._place_task(agent, self.shares.left if self.tasks == SERVER else task)
        return self.shares.placement()

    def _place_task(self, agent: int, task: int) -> int:
        """Place one task that an agent receives, and return the agent that placed it."""
        graphs = self.cluster.graphs
        seen = TaskObservation(graphs, self.terms, self.shares, self.fit, task, self.cluster.uplink_load)
        partitions = self.cluster.partitions(seen.task)
        forward = seen.feasible_partitions()
        forward[agent] = False
        action = self._selected(agent, seen, partitions, forward)
        servers = graphs.parts[agent].servers
        if action >= len(servers):
            agent = action - len(servers)
            servers = graphs.parts[agent].servers
            action = self._selected(agent, seen, partitions, np.zeros_like(forward))
        node = int(servers[action])
        self.shares.give(node, int(seen.possible[node]))
        return agent

    def _selected(self, agent: int, seen: TaskObservation, partitions: Array, forward: Bools) -> int:
        """Return the action of an agent. forward: the partitions to which it may forward, shape (partitions,)."""
        network, rows = self.cluster.network, self.cluster.graphs.parts[agent].servers
        own, beyond = partitions[agent : agent + 1], np.zeros(len(forward), np.float32)
        choice, reach = seen.choice(rows), seen.reach() if forward.any() else None
        inside = network.server_scores(self.cluster.servers[rows], choice, own, seen.task)
        if reach is not None:
            beyond = network.forward_scores(partitions, reach, own, seen.task)
        allowed = np.concatenate([seen.possible[rows] > 0, forward])
        return self.select(AgentStep(agent, choice, reach, seen.task, allowed, np.concatenate([inside, beyond])))
