"""Random topologies, networks and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiresias.scheduler.place.learned.cluster_graph import WHOLE, ClusterGraph
from tiresias.scheduler.place.learned.placement_agents import GPU
from tiresias.scheduler.place.learned.placement_network import NetworkSizes, PlacementNetwork
from tiresias.scheduler.place.learned.task_observation import FEATURES, network_sizes
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.scheduler.topology_tree import Topology

_SIZES = network_sizes(width=8, hidden=16)


def random_topology(rng: np.random.Generator) -> Topology:
    nodes = int(rng.integers(1, 40))
    leaf = np.sort(rng.integers(0, max(nodes // 4, 1), nodes)) * 2  # with gaps
    levels = [leaf, leaf // 5][: int(rng.integers(1, 3))]
    return Topology.of_groups(rng.integers(1, 9, nodes), levels)


def random_graphs(rng: np.random.Generator) -> ClusterGraph:
    topology = random_topology(rng)
    levels = (*topology.group_names, WHOLE)
    return ClusterGraph(topology, levels[int(rng.integers(len(levels)))])


def random_sizes(rng: np.random.Generator) -> NetworkSizes:
    server, choice, reach, task, width, servers, partitions, hidden = (
        int(rng.integers(low, high)) for low, high in ((1, 9), (1, 5), (1, 5), (1, 9), (1, 20), (1, 4), (0, 3), (1, 40))
    )
    return NetworkSizes(server, choice, reach, task, width, servers, partitions, hidden)


def random_parameters(sizes: NetworkSizes, rng: np.random.Generator) -> dict[str, Any]:
    return {
        name: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for name, shape in sizes.shapes().items()
    }


def inputs(graphs: ClusterGraph, sizes: NetworkSizes, rng: np.random.Generator) -> dict[str, Any]:
    """Return features of servers (0 for switches) and of a task, and of the edges of both graphs."""
    features = rng.random((graphs.inner.nodes, sizes.server_features)).astype(np.float32)
    features[len(graphs.partition) :] = 0
    load = rng.random(graphs.links).astype(np.float32)
    links = graphs.edge_features(load)
    return {
        "load": load,
        "features": features,
        "choice": rng.random((len(graphs.partition), sizes.choice_features)).astype(np.float32),
        "reach": rng.random((len(graphs.parts), sizes.reach_features)).astype(np.float32),
        "task": rng.random((1, sizes.task_features)).astype(np.float32),
        "inner": graphs.inner.weights(links[graphs.inner_links]),
        "between": graphs.between.weights(links[graphs.between_links]),
        "present": graphs.padded[1],
        "switches": np.zeros((graphs.upper_switches, sizes.width), np.float32),
    }


def forward(network: PlacementNetwork, graphs: ClusterGraph, given: dict[str, Any]) -> list[Any]:
    """Return the scores of all servers and partitions for the first agent, and its value."""
    servers = network.embed_servers(graphs.inner, given["inner"], given["features"])
    pooled = network.pooled(servers[graphs.padded[0]], given["present"])
    partitions = network.embed_partitions(graphs.between, given["between"], pooled, given["task"], given["switches"])
    own, task = partitions[:1], given["task"]
    return [
        network.server_scores(servers[: len(graphs.partition)], given["choice"], own, task),
        network.forward_scores(partitions, given["reach"], own, task),
        network.value(partitions, own, task),
    ]


def random_weights(topology: Topology, seed: int, level: str = "leaf", tasks: str = GPU) -> PlacementWeights:
    """Return weights with random values for a topology."""
    parameters = random_parameters(_SIZES, np.random.default_rng(seed))
    fingerprint = ClusterGraph(topology, level).fingerprint
    return PlacementWeights(_SIZES, parameters, FEATURES, level, (10.0, 20.0, 40.0), fingerprint, {"seed": seed}, tasks)
