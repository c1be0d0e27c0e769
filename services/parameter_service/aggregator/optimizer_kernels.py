"""SGD and Adam on flat arrays, in the order of torch.optim's operations, from one slot of a tensor into another one.

The arrays are processed in chunks that fit the cache: each gradient is read from memory once, and each result written once. Nothing
is allocated per step but what Python needs for the views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiresias.errors import UsageError

Array = NDArray[Any]
CHUNK = (
    65536  # elements: 256 KiB of float32. In smaller ones the calls of NumPy take more than the memory that they save
)
DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}
DEFAULTS: dict[str, dict[str, float]] = {
    "average": {},
    "sgd": {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": 0.0},
    "adam": {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "decoupled": 0.0},
}


class OptimizerSpec(NamedTuple):
    """An optimizer and its numbers.

    Attributes:
        name: "sgd", "adam" or "average".
        options: Every option of DEFAULTS[name].
    """

    name: str
    options: dict[str, float]

    @property
    def arrays(self) -> int:
        """The number of state arrays, each of the tensor's size."""
        if self.name == "adam":
            return 2
        return int(self.options.get("momentum", 0.0) != 0.0)


class Slot(NamedTuple):
    """One version of a tensor: the parameters and the optimizer's state arrays."""

    parameters: Array
    state: Sequence[Array]


class StepNumbers(NamedTuple):
    """What changes from step to step.

    Attributes:
        applied: Updates applied before.
        lr: The learning rate.
    """

    applied: int
    lr: float


def optimizer_spec(name: str, options: Mapping[str, float]) -> OptimizerSpec:
    """Return a checked optimizer with all its numbers.

    Raises:
        UsageError: An unknown optimizer or option.
    """
    if name not in DEFAULTS:
        raise UsageError(f"no optimizer {name[:40]!r}; available: {', '.join(DEFAULTS)}")
    if unknown := options.keys() - DEFAULTS[name].keys():
        raise UsageError(f"{name}: no option {', '.join(sorted(unknown))[:80]}; available: {', '.join(DEFAULTS[name])}")
    return OptimizerSpec(name, DEFAULTS[name] | dict(options))


class OptimizerKernel:
    """The update of one dtype, with scratch memory of one chunk; a thread has its own.

    Args:
        dtype: float32 or float64.
        fused: The fused multiply-add of float32; by default by NumPy.
    """

    def __init__(self, dtype: np.dtype[Any], fused: FusedAddition | None = None) -> None:
        self._averaged, self._chunk = np.empty(CHUNK, dtype), _Chunk(dtype, fused or fused_by_numpy())

    def update(
        self, spec: OptimizerSpec, numbers: StepNumbers, gradients: Sequence[Array], old: Slot, new: Slot
    ) -> bool:
        """Write one step's result into `new`.

        Args:
            spec: The optimizer.
            numbers: Of this step.
            gradients: One of each rank; they are added in this order and divided by their number.
            old: The version before, unchanged.
            new: The version after.

        Returns:
            Whether the averaged gradient is finite; `new` has no meaning otherwise.
        """
        apply = _apply(spec, numbers)
        finite = True
        for start in range(0, len(new.parameters), CHUNK):
            part = slice(start, min(start + CHUNK, len(new.parameters)))
            mean = self._mean(gradients, part)
            finite = finite and _finite(mean)
            apply(mean, self._chunk, _cut(old, part), _cut(new, part))
        return finite

    def _mean(self, gradients: Sequence[Array], part: slice) -> Array:
        mean = self._averaged[: part.stop - part.start]
        if len(gradients) == 1:
            mean[:] = gradients[0][part]
            return mean
        np.add(gradients[0][part], gradients[1][part], out=mean)
        for gradient in gradients[2:]:
            np.add(mean, gradient[part], out=mean)
        return np.divide(mean, len(gradients), out=mean)


def optimizer_kernels(fused: FusedAddition | None = None) -> dict[str, OptimizerKernel]:
    """Return the kernel of each dtype for one thread."""
    return {name: OptimizerKernel(dtype, fused) for name, dtype in DTYPES.items()}


Apply = Callable[[Array, "_Chunk", Slot, Slot], None]
FusedAddition = Callable[[Array, Array, float, Array], Array]


def fused_by_numpy() -> FusedAddition:
    """Return `add(base, values, factor, out)`, which writes base + factor * values in float32 with one rounding; of CHUNKs.

    The product of two float32 numbers is exact in float64, so that the sum has one rounding (a second one differs in about one of
    2^29 cases).
    """
    whole_one, whole_two = np.empty(CHUNK, np.float64), np.empty(CHUNK, np.float64)

    def add(base: Array, values: Array, factor: float, out: Array) -> Array:
        one, two = whole_one[: len(out)], whole_two[: len(out)]
        one[:] = values
        np.multiply(one, np.float64(np.float32(factor)), out=one)
        two[:] = base
        out[:] = np.add(one, two, out=one)
        return out

    return add


def _cut(slot: Slot, part: slice) -> Slot:
    return Slot(slot.parameters[part], [array[part] for array in slot.state])


def _finite(values: Array) -> bool:
    """Return whether all are finite; the sum of squares decides unless it overflows."""
    with np.errstate(all="ignore"):
        return bool(math.isfinite(np.dot(values, values)) or np.isfinite(values).all())


def _apply(spec: OptimizerSpec, numbers: StepNumbers) -> Apply:
    if spec.name == "average":
        return _average
    return {"sgd": _sgd, "adam": _adam}[spec.name](spec.options, numbers)


def _average(mean: Array, _chunk: _Chunk, _old: Slot, new: Slot) -> None:
    new.parameters[:] = mean


class _Chunk:
    """The scratch memory of one chunk, and the addition that PyTorch computes with one rounding.

    Args:
        dtype: float32 or float64.
        fused: That addition in float32.
    """

    def __init__(self, dtype: np.dtype[Any], fused: FusedAddition) -> None:
        self._single, self._fused = dtype == np.float32, fused
        self._plain, self._product = np.empty(CHUNK, dtype), np.empty(CHUNK, dtype)

    def plain(self, count: int) -> Array:
        """Return scratch memory of the dtype."""
        return self._plain[:count]

    def add(self, base: Array, values: Array, factor: float, out: Array) -> Array:
        """Write base + factor * values to `out`; PyTorch's kernels use a fused multiply-add for it."""
        if self._single:
            return self._fused(base, values, factor, out)
        return np.add(base, np.multiply(values, factor, out=self._product[: len(out)]), out=out)


def _sgd(options: Mapping[str, float], numbers: StepNumbers) -> Apply:
    decay, momentum, nesterov = options["weight_decay"], options["momentum"], bool(options["nesterov"])
    undamped, lr, first = 1 - options["dampening"], numbers.lr, numbers.applied == 0

    def apply(mean: Array, chunk: _Chunk, old: Slot, new: Slot) -> None:
        step = mean
        if decay:
            chunk.add(mean, old.parameters, decay, mean)
        if momentum:
            step = new.state[0]
            _momentum(mean, chunk, old.state[0], step)
            if nesterov:
                step = chunk.add(mean, step, momentum, mean)
        chunk.add(old.parameters, step, -lr, new.parameters)

    def _momentum(mean: Array, chunk: _Chunk, before: Array, after: Array) -> None:
        if first:
            after[:] = mean
            return
        np.multiply(before, momentum, out=after)
        if undamped == 1:
            np.add(after, mean, out=after)
        else:
            chunk.add(after, mean, undamped, after)

    return apply


def _adam(options: Mapping[str, float], numbers: StepNumbers) -> Apply:
    beta1, beta2, eps, decay = options["beta1"], options["beta2"], options["eps"], options["weight_decay"]
    decoupled, lr, step = bool(options["decoupled"]), numbers.lr, numbers.applied + 1
    size, root = lr / (1 - beta1**step), math.sqrt(1 - beta2**step)

    def apply(mean: Array, chunk: _Chunk, old: Slot, new: Slot) -> None:
        (first, second), scratch = new.state, chunk.plain(len(mean))
        base = old.parameters
        if decay and decoupled:
            base = np.multiply(base, 1 - lr * decay, out=new.parameters)
        elif decay:
            chunk.add(mean, base, decay, mean)
        _moments(mean, chunk, old.state, first, second)
        np.divide(np.sqrt(second, out=scratch), root, out=scratch)
        np.add(scratch, eps, out=scratch)
        np.divide(np.multiply(first, -size, out=mean), scratch, out=scratch)
        np.add(base, scratch, out=new.parameters)

    def _moments(mean: Array, chunk: _Chunk, before: Sequence[Array], first: Array, second: Array) -> None:
        scratch = chunk.plain(len(mean))
        np.subtract(mean, before[0], out=scratch)
        chunk.add(before[0], scratch, 1 - beta1, first)
        np.multiply(np.multiply(mean, 1 - beta2, out=scratch), mean, out=scratch)
        np.add(np.multiply(before[1], beta2, out=second), scratch, out=second)

    return apply
