"""A communication hook of DistributedDataParallel: the parameter service averages the gradients, in place of an all-reduce.

    from tiresias.services.parameter_service.agent import ServiceHook, average_by_service
    ddp_model.register_comm_hook(ServiceHook.from_environment(), average_by_service)

The program's own optimizer updates the parameters. A bucket is a tensor of the service; it is declared when it is first seen, as
DDP chooses its buckets anew after the first step.
"""

import queue
import threading
from typing import Any

import torch
from torch.distributed import GradBucket

from tiresias.errors import UsageError
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import ServiceJob, read_job_file, service_job
from tiresias.services.parameter_service.agent.tensor_buffers import DTYPES
from tiresias.services.parameter_service.agent.tensor_directory import FileDirectory, TensorDirectory
from tiresias.services.parameter_service.messages.agent_messages import InitTensor


class ServiceHook:
    """The state of the hook: the client, and a thread that completes one bucket after the other.

    Args:
        job: This process.
        directory: Where buckets are placed.
    """

    def __init__(self, job: ServiceJob, directory: TensorDirectory) -> None:
        self._job, self._client = job, ServiceClient(job, directory)
        self._tensors: dict[str, ClientTensor] = {}
        self._work: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="parameter service", daemon=True)
        self._thread.start()

    @classmethod
    def from_environment(cls) -> "ServiceHook":
        """Return the state of this process's job.

        Raises:
            UsageError: The environment names no job file, or one of a job that a manager places.
        """
        job = service_job()
        if "manager" in read_job_file(job.file):
            raise UsageError(
                f"{job.file}: the hook needs a job file with aggregators; a manager places no buckets of DDP"
            )
        return cls(job, FileDirectory(job.file))

    def average(self, index: int, gradient: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Return the future of a bucket's average over all ranks."""
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._work.put((index, gradient, future))
        return future

    def close(self) -> None:
        """End the thread and close the connections."""
        self._work.put(None)
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            index, gradient, future = work
            try:
                future.set_result(self._averaged(index, gradient))
            except Exception as error:
                future.set_exception(error)

    def _averaged(self, index: int, gradient: torch.Tensor) -> torch.Tensor:
        if gradient.dtype not in DTYPES:
            raise UsageError(f"bucket {index}: {gradient.dtype}; the service supports float32 and float64")
        sent = gradient.detach().cpu().contiguous()
        result = torch.empty_like(sent)
        tensor = self._tensor(index, sent)
        tensor.place = memoryview(result.numpy()).cast("B")
        data = memoryview(sent.numpy()).cast("B")
        self._client.push(tensor, lambda: [data])
        self._client.complete([tensor])
        return result.to(gradient.device)

    def _tensor(self, index: int, gradient: torch.Tensor) -> ClientTensor:
        name = f"bucket-{index}-of-{gradient.numel()}"
        if name not in self._tensors:
            size = gradient.numel() * gradient.element_size()
            tensor = ClientTensor(name, size, memoryview(bytearray(size)))
            self._client.assign([tensor])
            if self._job.rank == 0:
                content = InitTensor(name, tuple(gradient.shape), DTYPES[gradient.dtype], "average")
                self._client.declare(tensor, content, bytes(size))
            else:
                self._client.await_declared(tensor, 0)
            self._tensors[name] = tensor
        return self._tensors[name]


def average_by_service(state: ServiceHook, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Return the future of a bucket's averaged gradient; the hook of register_comm_hook()."""
    return state.average(bucket.index(), bucket.buffer())
