"""The network in PyTorch gives the numbers of the network in numpy, and each of its parameters learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.scheduler.place.learned.networks import (
    forward,
    inputs,
    random_graphs,
    random_parameters,
    random_sizes,
)
from tiresias.scheduler.place.learned.cluster_graph import ClusterGraph
from tiresias.scheduler.place.learned.placement_network import NetworkSizes, PlacementNetwork
from tiresias.scheduler.topology_tree import Topology

torch = pytest.importorskip("torch", reason="torch is not installed")


def tensors_of(given: dict[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(map(torch.tensor, value)) if isinstance(value, tuple) else torch.tensor(value)
        for name, value in given.items()
    }


@pytest.mark.parametrize("seed", range(60))
def test_numpy_and_torch_agree(seed: int) -> None:
    from tiresias.simulator.learning.torch_operations import TorchOperations

    rng = np.random.default_rng(seed)
    graphs, sizes = random_graphs(rng), random_sizes(rng)
    parameters, given = random_parameters(sizes, rng), inputs(graphs, sizes, rng)
    tensors = {name: torch.tensor(value) for name, value in parameters.items()}
    by_torch = forward(
        PlacementNetwork(sizes, tensors, TorchOperations()),
        graphs,
        tensors_of(given),
    )
    for one, other in zip(forward(PlacementNetwork(sizes, parameters), graphs, given), by_torch, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other.numpy()).max(initial=0) < 1e-5


def test_every_parameter_learns_from_the_scores() -> None:
    from tiresias.simulator.learning import torch_operations

    rng = np.random.default_rng(7)
    graphs, sizes = ClusterGraph(Topology.of_groups(np.full(12, 4), [np.arange(12) // 3])), NetworkSizes(5, 2, 3, 4)
    parameters = torch_operations.random_parameters(sizes, 1)
    given = tensors_of(inputs(graphs, sizes, rng))
    network = PlacementNetwork(sizes, parameters, torch_operations.TorchOperations())
    sum(each.sum() for each in forward(network, graphs, given)).backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in parameters.values())
