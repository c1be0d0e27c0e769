"""The edge-conditioned convolution is the sum that the paper writes, also in batches."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

from tiresias.scheduler.place.learned.edge_convolution import Edges, NumpyOperations, edge_convolution

TOLERANCE = 1e-5


def random_graph(rng: np.random.Generator, nodes: int, edges: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of random edges; some nodes have none."""
    return rng.integers(0, nodes, edges), rng.integers(0, max(nodes - 2, 1), edges)


def layer(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    nodes, edges = int(rng.integers(2, 30)), int(rng.integers(0, 90))
    before, after = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    source, target = random_graph(rng, nodes, edges)
    given = np.concatenate([rng.normal(size=(edges, 3)), np.ones((edges, 1))], axis=1).astype(np.float32)
    return {
        "nodes": nodes, "source": source, "target": target, "edges": given,
        "features": rng.normal(size=(nodes, before)).astype(np.float32),
        "filters": rng.normal(size=(4 * before, after)).astype(np.float32) / 4,
        "bias": rng.normal(size=after).astype(np.float32),
    }  # fmt: skip


def convolved(one: dict[str, Any], is_dense: bool = True) -> np.ndarray:
    graph = Edges(one["nodes"], one["source"], one["target"], is_dense)
    args = [one[name] for name in ("features", "filters", "bias")]
    return np.asarray(edge_convolution(NumpyOperations(), graph, graph.weights(one["edges"]), *args))


def naive(one: dict[str, Any]) -> np.ndarray:
    """One edge at a time, each with its own matrix."""
    before, after = one["features"].shape[1], one["filters"].shape[1]
    found = np.zeros((one["nodes"], after))
    for node in range(one["nodes"]):
        incoming = np.flatnonzero(one["target"] == node)
        for edge in incoming:
            matrix = np.zeros((before, after))
            for k in range(4):
                matrix += float(one["edges"][edge, k]) * one["filters"][k * before : (k + 1) * before]
            found[node] += one["features"][one["source"][edge]] @ matrix / len(incoming)
    return np.asarray(found + one["bias"])


@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_a_layer_is_the_sum_over_edges_with_a_matrix_each(seed: int, is_dense: bool) -> None:
    one = layer(seed)
    assert np.abs(convolved(one, is_dense) - naive(one)).max() < TOLERANCE


@pytest.mark.skipif(not importlib.util.find_spec("torch_geometric"), reason="torch_geometric is not installed")
@pytest.mark.parametrize("seed", range(10))
def test_a_layer_is_that_of_torch_geometric(seed: int) -> None:
    import torch

    NNConv = importlib.import_module("torch_geometric.nn").NNConv  # noqa: N806

    one = layer(seed)
    before, after = one["features"].shape[1], one["filters"].shape[1]
    linear = torch.nn.Linear(3, before * after)
    matrices = torch.tensor(one["filters"]).reshape(4, before * after)
    other = NNConv(before, after, linear, aggr="mean", root_weight=False)
    linear.weight.data, linear.bias.data = matrices[:3].T.contiguous(), matrices[3]
    other.bias.data = torch.tensor(one["bias"])
    ends = torch.tensor(np.stack([one["source"], one["target"]]))
    expected = other(torch.tensor(one["features"]), ends, torch.tensor(one["edges"][:, :3])).detach().numpy()
    assert np.abs(convolved(one) - expected).max() < TOLERANCE


@pytest.mark.parametrize("is_dense", [True, False])
def test_batches_are_computed_as_one_after_the_other(is_dense: bool) -> None:
    one = layer(3)
    graph, rng = Edges(one["nodes"], one["source"], one["target"], is_dense), np.random.default_rng(0)
    many = rng.normal(size=(5, *one["features"].shape)).astype(np.float32)
    edges = one["edges"] * rng.random((5, 1, 1)).astype(np.float32)
    found = edge_convolution(NumpyOperations(), graph, graph.weights(edges), many, one["filters"], one["bias"])
    for at, each in enumerate(found):
        assert np.abs(convolved({**one, "features": many[at], "edges": edges[at]}) - each).max() < TOLERANCE
