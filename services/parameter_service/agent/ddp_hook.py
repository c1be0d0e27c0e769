"""A communication hook of DistributedDataParallel: the parameter service averages the gradients, in place of an all-reduce.

    from tiresias.services.parameter_service.agent import ServiceHook, average_by_service
    ddp_model.register_comm_hook(ServiceHook.from_environment(), average_by_service)

The program's own optimizer updates the parameters. The gradient of each parameter is a tensor of the service. So the tensors stay
the same when DDP chooses its buckets anew after the first step; a tensor is declared with the first bucket that has it.
"""

# without `from __future__ import annotations`: DDP compares the annotations of its hook with the classes
import queue
import threading
from collections import deque
from dataclasses import dataclass

import torch
from torch.distributed import GradBucket

from tiresias.errors import UsageError, one_line
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.agent.bucket_buffers import BucketBuffers
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.job_site import JobSite
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import ServiceJob, service_job
from tiresias.services.parameter_service.agent.tensor_buffers import DTYPES, blocks_of
from tiresias.services.parameter_service.agent.tensor_directory import TensorDirectory
from tiresias.services.parameter_service.messages.agent_messages import InitTensor

BLOCK_BYTES = 4 << 20


@dataclass(eq=False)
class _Bucket:
    """A bucket that DDP has filled.

    Attributes:
        index: Its number in the step.
        is_last: Whether it is the step's last one.
        gradient: Its flat gradient.
        parameters: The parameters whose gradients it has, in their order.
        ready: The event of what computes it; None on the CPU.
        future: That of its average.
    """

    index: int
    is_last: bool
    gradient: torch.Tensor
    parameters: list[torch.Tensor]
    ready: torch.cuda.Event | None
    future: torch.futures.Future[torch.Tensor]


@dataclass(eq=False)
class _Layout:
    """The tensors of a bucket, and its memory.

    Attributes:
        parameters: The ids of its parameters.
        buffers: Its memory.
        blocks: The tensors of the service, in the order of their bytes.
    """

    parameters: tuple[int, ...]
    buffers: BucketBuffers
    blocks: list[ClientTensor]


class ServiceHook:
    """The state of the hook: the client, and a thread that sends and completes the buckets.

    Args:
        job: This process.
        directory: Where tensors are placed; by default by the manager or on the aggregators of the job file.
    """

    def __init__(self, job: ServiceJob, directory: TensorDirectory | None = None) -> None:
        self._job, self._site = job, JobSite(job)
        self._client = ServiceClient(job, directory or self._site.directory())
        self._reports = self._site.reports() if directory is None else None
        self._tensors: dict[int, list[ClientTensor]] = {}  # by the id of the parameter
        self._layouts: dict[int, _Layout] = {}  # by the index of the bucket
        self._held: list[torch.Tensor] = []  # the parameters of these ids
        self._failed = False
        self._work: queue.SimpleQueue[_Bucket | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="parameter service", daemon=True)
        self._thread.start()

    @classmethod
    def from_environment(cls) -> "ServiceHook":
        """Return the state of this process's job.

        Raises:
            UsageError: The environment names no job file.
        """
        return cls(service_job())

    def average(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Return the future of a bucket's average over all ranks."""
        gradient = bucket.buffer()
        future = BucketBuffers.future(gradient)
        ready = BucketBuffers.ready(gradient)
        self._work.put(_Bucket(bucket.index(), bucket.is_last(), gradient, bucket.parameters(), ready, future))
        return future

    def close(self) -> None:
        """End the thread and close the connections."""
        self._work.put(None)
        self._thread.join()
        self._client.close()

    # in the thread

    def _run(self) -> None:
        """Push each bucket when it is there; complete the oldest one while there is no other."""
        pushed: deque[tuple[_Bucket, _Layout]] = deque()
        while True:
            try:
                bucket = self._work.get(block=not pushed)
            except queue.Empty:
                self._complete(*pushed.popleft())
                continue
            if bucket is None:
                return
            try:
                pushed.append((bucket, self._push(bucket)))
            except Exception as error:
                self._fail(bucket, error)

    def _push(self, bucket: _Bucket) -> _Layout:
        layout = self._layout(bucket)
        data, place, start = layout.buffers.gradient(bucket.gradient, bucket.ready), layout.buffers.place, 0
        for tensor in layout.blocks:
            part = data[start : start + tensor.bytes]
            tensor.place = place[start : start + tensor.bytes]
            self._client.push(tensor, lambda part=part: [part])  # type: ignore[misc]
            start += tensor.bytes
        return layout

    def _complete(self, bucket: _Bucket, layout: _Layout) -> None:
        try:
            self._client.complete(layout.blocks)
            layout.buffers.deliver(bucket.gradient, bucket.future)
        except Exception as error:
            self._fail(bucket, error)
        else:
            if bucket.is_last and self._reports:
                self._reports.iteration()

    def _fail(self, bucket: _Bucket, error: Exception) -> None:
        """End the backward pass with an error. DDP reports it in its own words, so that the log has the reason before."""
        if not self._failed:
            log_line(f"parameter service: {one_line(error)}")
        self._failed = True
        bucket.future.set_exception(error)

    def _layout(self, bucket: _Bucket) -> _Layout:
        """Return the layout of a bucket; a new one where DDP has chosen other buckets."""
        ids = tuple(id(each) for each in bucket.parameters)
        known = self._layouts.get(bucket.index)
        if known is None or known.parameters != ids:
            self._declare([each for each in bucket.parameters if id(each) not in self._tensors], bucket.gradient)
            blocks = [block for each in ids for block in self._tensors[each]]
            if sum(block.bytes for block in blocks) != bucket.gradient.numel() * bucket.gradient.element_size():
                raise UsageError("a bucket of DDP has other gradients than those of its parameters")
            known = self._layouts[bucket.index] = _Layout(ids, BucketBuffers(bucket.gradient), blocks)
        return known

    def _declare(self, parameters: list[torch.Tensor], bucket: torch.Tensor) -> None:
        if not parameters:
            return
        if bucket.dtype not in DTYPES:
            raise UsageError(f"a bucket of DDP has {bucket.dtype}; the service supports float32 and float64")
        size = bucket.element_size()
        total = sum(each.numel() for each in parameters) * size
        most = self._site.block_bytes(total, BLOCK_BYTES) // size * size
        for each in parameters:
            name = f"gradient-{len(self._held)}-of-{each.numel()}"
            data = memoryview(bytearray(each.numel() * size))
            self._held.append(each)
            self._tensors[id(each)] = [
                ClientTensor(part, len(place), place, element_bytes=size)
                for part, place in blocks_of(name, data, max(most, size))
            ]
        added = [block for each in parameters for block in self._tensors[id(each)]]
        self._client.assign(added)
        for block in added:
            self._declare_block(block, block.bytes // size, DTYPES[bucket.dtype])

    def _declare_block(self, block: ClientTensor, elements: int, dtype: str) -> None:
        if self._job.rank == 0:
            self._client.declare(block, InitTensor(block.name, (elements,), dtype, "average"), bytes(block.bytes))
        else:
            self._client.await_declared(block, 0)


def average_by_service(state: ServiceHook, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Return the future of a bucket's averaged gradient; the hook of register_comm_hook()."""
    return state.average(bucket)
