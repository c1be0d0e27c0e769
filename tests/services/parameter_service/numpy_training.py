"""A training in numpy: two tensors, gradients that depend on the parameters; through the service, or in one process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
RANKS, SIZE, LR, MOMENTUM = 2, 4096, np.float32(0.05), np.float32(0.9)
TENSORS = ("first", "second")
OPTIONS = {"lr": float(LR), "momentum": float(MOMENTUM), "dampening": 0.0, "weight_decay": 0.0, "nesterov": 0.0}


def initial(seed: int, names: Sequence[str] = TENSORS) -> dict[str, Array]:
    chance = np.random.default_rng(seed)
    return {name: chance.normal(size=SIZE).astype(np.float32) for name in names}


def gradient(parameters: Array, step: int, rank: int) -> Array:
    """Of half the squared distance to a target that differs by step and rank."""
    target = np.random.default_rng((step, rank)).normal(size=SIZE).astype(np.float32)
    return parameters - target


def alone(seed: int, steps: int, names: Sequence[str] = TENSORS) -> dict[str, Array]:
    parameters = initial(seed, names)
    buffers = dict[str, Array]()
    for step in range(steps):
        for name in names:
            first, *others = (gradient(parameters[name], step, rank) for rank in range(RANKS))
            mean = sum(others, first) / np.float32(RANKS)
            buffers[name] = MOMENTUM * buffers[name] + mean if name in buffers else mean
            parameters[name] = parameters[name] - LR * buffers[name]
    return parameters
