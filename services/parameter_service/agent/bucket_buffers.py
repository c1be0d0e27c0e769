"""The memory of a bucket of DDP for transfers: the bucket itself, or pinned staging buffers of a bucket on a CUDA device."""

from __future__ import annotations

import torch

from tiresias.errors import UsageError
from tiresias.services.parameter_service.agent.tensor_buffers import DTYPES


class BucketBuffers:
    """The buffers of one bucket, for the steps in which it has the same layout.

    A bucket on a CUDA device is copied to pinned memory and back on a stream of its own. That stream waits for what the backward
    pass had enqueued when the bucket was ready; the sending thread waits for the copy, and nothing waits for the rest of the pass.

    Args:
        bucket: The flat gradient of the bucket.

    Raises:
        UsageError: A dtype that the service does not support.
    """

    def __init__(self, bucket: torch.Tensor) -> None:
        if bucket.dtype not in DTYPES:
            raise UsageError(f"a bucket of DDP has {bucket.dtype}; the service supports float32 and float64")
        self._cuda = bucket.is_cuda
        self._received = torch.empty(bucket.numel(), dtype=bucket.dtype, pin_memory=self._cuda)
        if self._cuda:
            self._sent = torch.empty_like(self._received, pin_memory=True)
            self._stream = torch.cuda.Stream(bucket.device)
            self._uploaded: torch.cuda.Event | None = None

    @staticmethod
    def ready(bucket: torch.Tensor) -> torch.cuda.Event | None:
        """Return the event of what computes the bucket, in the thread that runs the hook; None on the CPU."""
        return torch.cuda.current_stream(bucket.device).record_event() if bucket.is_cuda else None

    @staticmethod
    def future(bucket: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Return the future of a bucket's average; on a CUDA device, streams that use the average wait for its copy."""
        return torch.futures.Future(devices=[bucket.device]) if bucket.is_cuda else torch.futures.Future()

    @property
    def place(self) -> memoryview:
        """The bytes that the average is received into."""
        return _bytes(self._received)

    def gradient(self, bucket: torch.Tensor, ready: torch.cuda.Event | None) -> memoryview:
        """Return the bytes of the gradient, once it is in memory. From now on `place` may be written."""
        if ready is None:
            return _bytes(bucket)
        if self._uploaded is not None:
            self._uploaded.synchronize()  # the copy of the last average to the device
        with torch.cuda.device(bucket.device), torch.cuda.stream(self._stream), torch.no_grad():
            self._stream.wait_event(ready)
            self._sent.copy_(bucket, non_blocking=True)
            bucket.record_stream(self._stream)
            copied = self._stream.record_event()
        copied.synchronize()
        return _bytes(self._sent)

    def deliver(self, bucket: torch.Tensor, future: torch.futures.Future[torch.Tensor]) -> None:
        """Complete the future with what was received."""
        if not self._cuda:
            future.set_result(self._received)
            return
        with torch.cuda.device(bucket.device), torch.cuda.stream(self._stream), torch.no_grad():
            bucket.copy_(self._received, non_blocking=True)
            bucket.record_stream(self._stream)
            self._uploaded = self._stream.record_event()
            future.set_result(bucket)  # it records this stream's event, for which the users of the result wait


def _bytes(tensor: torch.Tensor) -> memoryview:
    array = tensor.detach().contiguous().view(-1).numpy()
    return memoryview(array).cast("B")
