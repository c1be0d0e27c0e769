"""An optimizer whose parameters are updated by the parameter service.

    from tiresias.services.parameter_service.agent import ParameterServiceOptimizer
    optimizer = ParameterServiceOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model)

Everything else in the training program remains: backward() pushes each gradient as soon as it is ready, step() pulls the updated
parameters. Each rank computes with its own part of the batch; the service averages the gradients. No process group is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tiresias.errors import UsageError
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.job_site import JobSite
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import ServiceJob, service_job
from tiresias.services.parameter_service.agent.tensor_buffers import DTYPES, TensorBuffers, blocks_of, gradient_parts
from tiresias.services.parameter_service.agent.tensor_directory import TensorDirectory
from tiresias.services.parameter_service.agent.torch_optimizers import service_options, state_names, torch_state
from tiresias.services.parameter_service.messages.agent_messages import InitTensor

BLOCK_BYTES = 4 << 20


@dataclass(eq=False)
class _Served:
    """One parameter: its blocks in the service, and this step's backward passes."""

    name: str
    parameter: torch.Tensor
    group: dict[str, Any]
    optimizer: str
    options: dict[str, float]
    buffers: TensorBuffers
    blocks: list[ClientTensor]
    starts: list[int]
    backwards: int = 0
    pushed: bool = False


class ParameterServiceOptimizer(torch.optim.Optimizer):
    """The service's side of a torch.optim optimizer.

    Args:
        optimizer: SGD, Adam or AdamW of torch.optim; it is read, and updates nothing itself. A scheduler of learning rates takes
            the ParameterServiceOptimizer.
        model: The module whose parameters it has; it provides their names.
        job: This process; by default from the environment.
        directory: Where tensors are placed; by default by the manager or on the aggregators of the job file.
        backwards_per_step: Backward passes that add up one step's gradient.
        overlap: Push during the backward pass. False: push in step(), for programs that change gradients before it (clipping).
        block_bytes: Larger parameters are stored in blocks of this size.

    Raises:
        UsageError: An optimizer, parameter or environment that the service does not support; one line.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module,
        *,
        job: ServiceJob | None = None,
        directory: TensorDirectory | None = None,
        backwards_per_step: int = 1,
        overlap: bool = True,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._inner = optimizer
        self.param_groups = optimizer.param_groups  # the same lists: schedulers change the learning rates there
        self._job = job or service_job()
        site = JobSite(self._job)
        self._client = ServiceClient(self._job, directory or site.directory())
        self._reports = site.reports() if directory is None else None
        self._backwards_per_step, self._overlap = backwards_per_step, overlap
        self._served = list(_served(optimizer, model, site.block_bytes(_bytes_of(optimizer), block_bytes)))
        self._options = [service_options(optimizer, group)[1] for group in self.param_groups]
        self._step, self._generation = 0, 0
        self._restore: dict[str, Any] | None = None
        self._client.assign(block for each in self._served for block in each.blocks)
        self._declare_new()
        for each in self._served:
            if overlap:
                each.parameter.register_post_accumulate_grad_hook(self._hook(each))

    # -- a step -------------------------------------------------------------------------------------------------------------

    def _hook(self, served: _Served) -> Callable[[torch.Tensor], None]:
        def ready(_: torch.Tensor) -> None:
            served.backwards += 1
            if served.backwards == self._backwards_per_step:
                self._push(served)

        return ready

    def _push(self, served: _Served) -> None:
        self._restore_now()
        gradient = served.buffers.gradient()
        for block, start in zip(served.blocks, served.starts, strict=True):
            self._client.push(block, gradient_parts(gradient, start, block.bytes), float(served.group["lr"]))
        served.pushed = True

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Wait until every parameter is updated, and store it. A parameter without a gradient counts as one with zeros.

        Raises:
            UsageError: The service refuses the step: another shape, NaN, a rank that does not push, an option that has changed.
            Unavailable: An aggregator cannot be reached for too long.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_options()
        for served in self._served:
            if not served.pushed:
                self._push(served)
        self._client.complete([block for served in self._served for block in served.blocks])
        for served in self._served:
            served.buffers.store()
            served.backwards, served.pushed = 0, False
        self._step += 1
        if self._reports:
            self._reports.iteration()
        return loss

    def _check_options(self) -> None:
        """Raise UsageError where a scheduler has changed more than the learning rate, which is sent with each step."""
        for group, declared in zip(self.param_groups, self._options, strict=True):
            options = service_options(self._inner, group)[1]
            if changed := [name for name in options if name != "lr" and options[name] != declared[name]]:
                raise UsageError(
                    f"the parameter service takes {', '.join(changed)} when the optimizer is made; only lr may change later"
                )

    # -- content ------------------------------------------------------------------------------------------------------------

    def _declare_new(self) -> None:
        for served in self._served:
            content = served.buffers.content()
            for block, start in zip(served.blocks, served.starts, strict=True):
                if self._job.rank == 0:
                    message = self._message(served, block)
                    self._client.declare(block, message, content[start : start + block.bytes])
                else:
                    self._client.await_declared(block, 0)
            served.buffers.store()

    def _message(
        self, served: _Served, block: ClientTensor, version: int = 0, counts: tuple[int, ...] = ()
    ) -> InitTensor:
        elements = block.bytes // served.parameter.element_size()
        shape = tuple(served.parameter.shape) if len(served.blocks) == 1 else (elements,)
        dtype = DTYPES[served.parameter.dtype]
        return InitTensor(
            block.name, shape or (1,), dtype, served.optimizer, served.options, version, counts, self._generation
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state in the form of the torch.optim optimizer, with the service's counts in addition.

        Call it between two steps, on rank 0. The parameters are the model's own, as always in PyTorch.
        """
        self._restore_now()
        counts: dict[str, list[int]] = {}
        state = {at: self._pulled_state(served, counts) for at, served in enumerate(self._served)}
        numbers = iter(range(len(self._served)))
        groups = [dict(group, params=[next(numbers) for _ in group["params"]]) for group in self.param_groups]
        found = {at: entry for at, entry in state.items() if entry}
        return {"state": found, "param_groups": groups, "parameter_service": {"step": self._step, "counts": counts}}

    def _pulled_state(self, served: _Served, counts: dict[str, list[int]]) -> dict[str, Any]:
        names = state_names(served.optimizer, served.options)
        arrays = {name: torch.empty_like(served.parameter, device="cpu") for name in names}
        flat = {name: array.view(-1) for name, array in arrays.items()}
        size = served.parameter.element_size()
        for block, start in zip(served.blocks, served.starts, strict=True):
            place = bytearray(block.bytes * (1 + len(names)))
            answer = self._client.pull_state(block, memoryview(place))
            counts[block.name] = list(answer.counts)
            pulled = torch.frombuffer(place, dtype=served.parameter.dtype).view(1 + len(names), -1)
            for row, name in enumerate(names, 1):
                flat[name][start // size : (start + block.bytes) // size] = pulled[row]
        return torch_state(served.optimizer, arrays, counts[served.blocks[0].name][0])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state of state_dict(); it is stored in the service, with the model's parameters, at the next push.

        Raises:
            UsageError: It is the state of another optimizer.
        """
        try:
            step, counts = int(state_dict["parameter_service"]["step"]), state_dict["parameter_service"]["counts"]
            assert counts.keys() == {block.name for served in self._served for block in served.blocks}
        except (AssertionError, KeyError, TypeError, AttributeError) as error:
            raise UsageError("the saved state is not one of this model's ParameterServiceOptimizer") from error
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({name: value for name, value in saved.items() if name != "params"})
        self._step, self._restore = step, state_dict

    def _restore_now(self) -> None:
        if self._restore is None:
            return
        saved, self._restore = self._restore, None
        self._generation += 1
        for at, served in enumerate(self._served):
            self._restore_one(served, saved["state"].get(at, {}), saved["parameter_service"]["counts"])

    def _restore_one(self, served: _Served, state: dict[str, Any], counts: dict[str, list[int]]) -> None:
        content = served.buffers.content()
        names = state_names(served.optimizer, served.options)
        arrays = [_state_bytes(state.get(name), served.parameter) for name in names]
        for block, start in zip(served.blocks, served.starts, strict=True):
            if self._job.rank != 0:
                self._client.await_declared(block, self._step, self._generation)
                continue
            version = self._step
            message = self._message(served, block, version, tuple(map(int, counts[block.name])) if version else ())
            parts = [content, *arrays] if version else [content]
            self._client.declare(block, message, *[part[start : start + block.bytes] for part in parts])

    def close(self) -> None:
        """Close the connections; the tensors remain in the service."""
        self._client.close()


def _state_bytes(array: torch.Tensor | None, parameter: torch.Tensor) -> memoryview:
    flat = (
        torch.zeros(parameter.numel(), dtype=parameter.dtype)
        if array is None
        else array.detach().cpu().contiguous().view(-1)
    )
    return memoryview(flat.numpy()).cast("B")


def _bytes_of(optimizer: torch.optim.Optimizer) -> int:
    parameters = (each for group in optimizer.param_groups for each in group["params"])
    return sum(each.numel() * each.element_size() for each in parameters)


def _served(optimizer: torch.optim.Optimizer, model: torch.nn.Module, block_bytes: int) -> Iterator[_Served]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        kind, options = service_options(optimizer, group)
        for parameter in group["params"]:
            if parameter not in names:
                raise UsageError("the optimizer has a parameter that is not one of the model's")
            yield _served_parameter(names[parameter], parameter, group, kind, options, block_bytes)


def _served_parameter(
    name: str, parameter: torch.Tensor, group: dict[str, Any], kind: str, options: dict[str, float], block_bytes: int
) -> _Served:
    buffers = TensorBuffers(name, parameter)
    whole = block_bytes // parameter.element_size() * parameter.element_size()
    size = parameter.element_size()
    places = blocks_of(name, buffers.place, whole)
    blocks = [ClientTensor(block, len(data), data, element_bytes=size) for block, data in places]
    starts = [at * whole for at in range(len(blocks))]
    return _Served(name, parameter, group, kind, options, buffers, blocks, starts)
