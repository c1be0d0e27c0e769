"""Reference training steps: small, real, and each with another need of the node."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_BATCH, _WIDTH = 64, 512  # of the perceptron, whose weights fit into the caches
_ROWS, _LOOKED_UP = 1 << 18, 1 << 15  # of the table of embeddings, 128 MiB: it does not
_IMAGE = 1 << 18  # bytes of a stored sample
_RATE = 1e-3  # of the gradient descent


class ReferenceStep(NamedTuple):
    """A step that can be repeated.

    Attributes:
        name: For messages.
        run: Executes the step.
        moved: Bytes that a step moves to and from memory, about.
    """

    name: str
    run: Callable[[], None]
    moved: float


def reference_steps(seed: int = 0) -> tuple[ReferenceStep, ...]:
    """Return the steps: a perceptron, embeddings in a large table, and an input pipeline before the perceptron."""
    chance = np.random.default_rng(seed)
    perceptron, pipeline = _Perceptron(chance), _InputPipeline(chance)
    embeddings = _Embeddings(chance)
    return (
        ReferenceStep("perceptron", perceptron.step, 0.0),
        ReferenceStep("embeddings", embeddings.step, embeddings.moved),
        ReferenceStep("input pipeline", lambda: perceptron.train(pipeline.batch()), 3.0 * _IMAGE),
    )


class _Perceptron:
    """Two layers, trained by gradient descent to reproduce their input."""

    def __init__(self, chance: np.random.Generator) -> None:
        scale = 1.0 / np.sqrt(_WIDTH)
        self._first, self._second = (
            chance.normal(scale=scale, size=(_WIDTH, _WIDTH)).astype(np.float32) for _ in range(2)
        )
        self._input = chance.normal(size=(_BATCH, _WIDTH)).astype(np.float32)

    def step(self) -> None:
        self.train(self._input)

    def train(self, batch: Floats) -> None:
        hidden = np.maximum(batch @ self._first, 0.0)
        error = hidden @ self._second - batch
        backward = (error @ self._second.T) * (hidden > 0.0)
        self._second -= _RATE / _BATCH * (hidden.T @ error)
        self._first -= _RATE / _BATCH * (batch.T @ backward)


class _Embeddings:
    """Rows of a large table, looked up at random and written back with their gradient."""

    moved = 3.0 * _LOOKED_UP * 128 * 4  # read, read again and written

    def __init__(self, chance: np.random.Generator) -> None:
        self._chance = chance
        self._table = np.ones((_ROWS, 128), np.float32)

    def step(self) -> None:
        rows = self._chance.integers(0, _ROWS, _LOOKED_UP)
        self._table[rows] -= _RATE * self._table[rows]


class _InputPipeline:
    """Stored samples that are decompressed and normalised."""

    def __init__(self, chance: np.random.Generator) -> None:
        self._stored = zlib.compress(chance.integers(0, 16, _IMAGE, np.uint8).tobytes(), 1)

    def batch(self) -> Floats:
        pixels = np.frombuffer(zlib.decompress(self._stored), np.uint8).astype(np.float32)
        pixels = (pixels - pixels.mean()) / (pixels.std() + 1e-6)
        return np.asarray(pixels[: _BATCH * _WIDTH].reshape(_BATCH, _WIDTH))
