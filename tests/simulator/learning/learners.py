"""Small clusters, workloads and networks that learn."""

from __future__ import annotations

from typing import Any

from tests.scheduler.place.learned.networks import random_weights
from tiresias.scheduler.place.learned.weights_file import PlacementWeights
from tiresias.simulator import ClusterSize, PlacementEnvironment, PlacementWorkload, network_of

CLUSTERS = {name: ClusterSize.of_network(network_of(name)) for name in ("fat_tree:2", "fat_tree:4", "bcube:3,1")}


def environment(cluster: str = "fat_tree:4", jobs: int = 20, load: float = 1.0) -> PlacementEnvironment:
    return PlacementEnvironment(CLUSTERS[cluster], PlacementWorkload(jobs=jobs, load=load).trace)


def weights_for(cluster: str, seed: int = 1, level: str = "leaf") -> PlacementWeights:
    return random_weights(CLUSTERS[cluster].topology(), seed, level)


def learner(cluster: str = "fat_tree:4", seed: int = 1, level: str = "leaf", step: float = 1e-3) -> Any:
    """A learner that begins with the weights of `weights_for`, and these."""
    import torch

    from tiresias.simulator.learning.actor_critic import ActorCritic, LearningRates

    weights = weights_for(cluster, seed, level)
    found = ActorCritic(weights.sizes, weights.graphs(CLUSTERS[cluster].topology()), seed, LearningRates(step))
    with torch.no_grad():
        for name, value in found.parameters.items():
            value.copy_(torch.from_numpy(weights.parameters[name]))
    return found, weights
