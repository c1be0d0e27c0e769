"""The operations of the placement network in PyTorch, and its parameters with random values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from tiresias.scheduler.place.learned.edge_convolution import Array
from tiresias.scheduler.place.learned.placement_network import NetworkSizes
from tiresias.simulator.learning.score_terms import heads


class TorchOperations:
    """The operations in PyTorch; gradients pass through all of them."""

    def relu(self, values: Array) -> Array:
        """Return the values, 0 for negative ones."""
        return torch.relu(values)

    def join(self, parts: list[Array], axis: int = -1) -> Array:
        """Return arrays that differ in one axis only as one."""
        return torch.cat(parts, dim=axis)

    def largest(self, values: Array, present: Array) -> Array:
        """Return the maximum over the rows that are present."""
        return torch.where(present > 0, values, -math.inf).amax(dim=-2)


@contextmanager
def same_sums() -> Iterator[None]:
    """Add in the same order each time: by itself PyTorch adds the gradients of an indexed tensor in the order of its threads."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def random_parameters(sizes: NetworkSizes, seed: int) -> dict[str, torch.Tensor]:
    """Return parameters with gradients: uniform weights by the number of inputs (Glorot, He), biases 0.

    The outputs of the heads are small, so that the first policy selects all feasible actions with about the same probability.
    """
    generator, found = torch.Generator().manual_seed(seed), {}
    for name, shape in sizes.shapes().items():
        values = torch.zeros(shape)
        if len(shape) == 2:
            limit = math.sqrt(6 / shape[0]) * (0.1 if name.endswith(".out") else 1.0)
            values.uniform_(-limit, limit, generator=generator)
        found[name] = values.requires_grad_()
    return found


def begin_with(sizes: NetworkSizes, parameters: Mapping[str, torch.Tensor], coefficients: Mapping[str, float]) -> None:
    """Change parameters, so that the scores are those of the terms of `score_terms.py` with some coefficients.

    The first hidden neurons of a head have the terms, and the others have no effect yet.
    """
    for head, neurons in heads(sizes, coefficients).items():
        weight, bias, out = (parameters[f"{head}.{name}"].data for name in ("weight", "bias", "out"))
        count = len(neurons.bias)
        weight[:, :count], bias[:count] = torch.from_numpy(neurons.weight), torch.from_numpy(neurons.bias)
        out[:], out[:count] = 0.0, torch.from_numpy(neurons.out)
