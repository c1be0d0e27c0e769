"""The fused multiply-add of PyTorch for an aggregator that has it: the same bits as NumPy's in float64, several times as fast.

Key `torch` of the aggregator's configuration. The import takes seconds and about 200 MiB of memory, so that it is no default.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tiresias.errors import UsageError
from tiresias.services.parameter_service.aggregator.optimizer_kernels import CHUNK, Array, FusedAddition, fused_by_numpy


def torch_addition() -> FusedAddition:
    """Return `add(base, values, factor, out)`, which writes base + factor * values in float32 with one rounding.

    Raises:
        UsageError: PyTorch is not installed, or does not fuse the two operations on this processor.
    """
    try:
        torch = import_module("torch")
    except (ImportError, OSError) as error:
        raise UsageError(f"torch: true needs PyTorch on this node: {error}") from error
    torch.set_num_threads(1)

    def add(base: Array, values: Array, factor: float, out: Array) -> Array:
        of = torch.from_numpy
        torch.add(of(base), of(values), alpha=factor, out=of(out))
        return out

    _check_same_bits(add)
    return add


def _check_same_bits(add: FusedAddition) -> None:
    base, values = np.random.default_rng(0).normal(size=(2, CHUNK)).astype(np.float32)
    found, expected = np.empty_like(base), np.empty_like(base)
    add(base, values, -0.1, found)
    fused_by_numpy()(base, values, -0.1, expected)
    if not np.array_equal(found, expected):
        raise UsageError("torch: true needs a processor on which PyTorch uses fused multiply-adds")
