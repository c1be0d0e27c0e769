"""The memory of a parameter and its gradient for transfers: the tensors themselves, or pinned staging buffers of CUDA tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tiresias.errors import UsageError
from tiresias.services.wire.channel import Buffer

DTYPES = {torch.float32: "float32", torch.float64: "float64"}


class TensorBuffers:
    """The buffers of one parameter.

    A CUDA gradient is copied to pinned memory on a stream of its own, and the sending thread waits for that copy, not the backward
    pass. Pulled parameters are copied back after the last of them has arrived.

    Args:
        name: The parameter's name.
        parameter: The parameter, on the CPU or on a CUDA device.

    Raises:
        UsageError: A dtype or layout that the service does not support.
    """

    def __init__(self, name: str, parameter: torch.Tensor) -> None:
        if parameter.dtype not in DTYPES or parameter.layout != torch.strided:
            raise UsageError(
                f"{name}: {parameter.dtype}, {parameter.layout}; the service supports dense float32 and float64"
            )
        if not parameter.is_contiguous():
            raise UsageError(f"{name}: the parameter is not contiguous in memory")
        self._name, self._parameter = name, parameter
        self._cuda = parameter.is_cuda
        if self._cuda:
            self._pinned = torch.empty(parameter.numel(), dtype=parameter.dtype, pin_memory=True)
            self._pinned_gradient = torch.empty_like(self._pinned, pin_memory=True)
            self._stream = torch.cuda.Stream(parameter.device)

    @property
    def place(self) -> memoryview:
        """The bytes that pulled parameters are received into."""
        return _bytes(self._pinned if self._cuda else self._parameter)

    def content(self) -> memoryview:
        """Return the parameter's present bytes."""
        if self._cuda:
            self._pinned.copy_(self._parameter.detach().view(-1))
        return self.place

    def gradient(self) -> Callable[[], memoryview]:
        """Return a function for the sending thread: it waits until the gradient is in memory, and returns its bytes."""
        gradient = self._parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(self._parameter)
        self._check(gradient)
        if self._cuda:
            return self._copied(gradient)
        held = gradient.contiguous()
        return lambda: _bytes(held)

    def _copied(self, gradient: torch.Tensor) -> Callable[[], memoryview]:
        self._stream.wait_stream(torch.cuda.current_stream(gradient.device))
        with torch.cuda.stream(self._stream):
            self._pinned_gradient.copy_(gradient.detach().reshape(-1), non_blocking=True)
            gradient.record_stream(self._stream)
            done = self._stream.record_event()

        def wait() -> memoryview:
            done.synchronize()
            return _bytes(self._pinned_gradient)

        return wait

    def _check(self, gradient: torch.Tensor) -> None:
        if gradient.is_sparse or gradient.dtype != self._parameter.dtype or gradient.shape != self._parameter.shape:
            raise UsageError(
                f"{self._name}: a gradient of shape {tuple(gradient.shape)}, {gradient.dtype}, {gradient.layout}; "
                f"the parameter has {tuple(self._parameter.shape)}, {self._parameter.dtype}"
            )

    def store(self) -> None:
        """Copy pulled parameters to where the network uses them."""
        if self._cuda:
            with torch.no_grad():
                self._parameter.view(-1).copy_(self._pinned, non_blocking=True)


def blocks_of(name: str, data: memoryview, block_bytes: int) -> list[tuple[str, memoryview]]:
    """Return a tensor in blocks of at most `block_bytes`, with their names: `name`, or `name#0`, `name#1`."""
    if len(data) <= block_bytes:
        return [(name, data)]
    starts = range(0, len(data), block_bytes)
    return [(f"{name}#{at}", data[start : start + block_bytes]) for at, start in enumerate(starts)]


def gradient_parts(gradient: Callable[[], memoryview], start: int, count: int) -> Callable[[], list[Buffer]]:
    """Return what sends one block of a gradient."""
    return lambda: [gradient()[start : start + count]]


def _bytes(tensor: torch.Tensor) -> memoryview:
    array = tensor.detach().view(-1).numpy()
    return memoryview(array).cast("B")
