"""The agent without PyTorch: pushes gradients, pulls parameters, follows tensors that move and repeats what a lost connection lost.

A request is repeated as a whole until its answer has arrived: a gradient is pushed again, and the aggregator drops it where it
counts already. So a lost aggregator, a lost connection or a migration changes no result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tiresias.errors import Unavailable, UsageError
from tiresias.services.parameter_service.agent.aggregator_links import AggregatorLinks
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor, Parts
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.parameter_service.agent.tensor_directory import TensorDirectory
from tiresias.services.parameter_service.messages.agent_messages import (
    InitTensor,
    Located,
    Parameters,
    Pull,
    PullState,
    Push,
    TensorState,
)
from tiresias.services.wire.channel import Buffer, frame_of
from tiresias.services.wire.session_messages import Accepted
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, packed

LOCATE_TIMEOUT_S = 120.0
LOST_AFTER_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.1
UNKNOWN = ("unknown", 0)  # state and epoch in the answer of an aggregator that has nothing of a tensor


class TensorLost(Unavailable):
    """The state folder of an aggregator is lost, and the job resumes from its checkpoint."""


class ServiceClient:
    """The requests of one rank. One thread may push while the training computes; everything else belongs to one thread.

    Args:
        job: This process.
        directory: Where tensors are placed.
        locate_timeout_s: Seconds to find the master copy of a tensor.
    """

    def __init__(self, job: ServiceJob, directory: TensorDirectory, locate_timeout_s: float = LOCATE_TIMEOUT_S) -> None:
        self._job, self._directory, self._locate_timeout_s = job, directory, locate_timeout_s
        self._links = AggregatorLinks(job)

    def assign(self, tensors: Iterable[ClientTensor]) -> None:
        """Take note of the job's tensors and of their first aggregators.

        Raises:
            UsageError: Two have the same name.
        """
        known = self._links.tensors
        for tensor in tensors:
            if tensor.name in known:
                raise UsageError(f"two tensors are named {tensor.name}: give each parameter a name of its own")
            known[tensor.name] = tensor
        chosen = self._directory.assign({name: tensor.bytes for name, tensor in known.items()})
        for name, tensor in known.items():
            tensor.address = tensor.address or chosen[name]

    def declare(self, tensor: ClientTensor, content: InitTensor, *payload: Buffer) -> None:
        """Rank 0: store the tensor's content, new or restored.

        Raises:
            StepRefused: The aggregator refuses it.
        """
        self._find(tensor, declared=False)
        frame = _frame(content, payload)
        tensor.request(lambda: [frame, *payload], lambda answer: isinstance(answer, Accepted))
        self._complete([tensor], declared=False)
        tensor.step = content.version
        self._find(tensor)

    def await_declared(self, tensor: ClientTensor, version: int, generation: int = 0) -> None:
        """Other ranks: wait until rank 0 has stored the tensor at a version, and pull it.

        Rank 0 may have stored a later one meanwhile, as it restores its checkpoint; this rank then waits for that one next.
        """
        deadline = time.monotonic() + self._locate_timeout_s
        for pause in _pauses():
            if self._find(tensor).generation >= generation:
                break
            _pause_until(deadline, pause, f"tensor {tensor.name}: rank 0 has not stored version {version}")
        tensor.step = version
        self._exchange(tensor, lambda: [frame_of(Pull(tensor.name, tensor.epoch, version))], _parameters_from(version))

    def push(self, tensor: ClientTensor, gradient: Parts, lr: float = -1.0) -> None:
        """Send one step's gradient, and request its result.

        Args:
            tensor: The tensor.
            gradient: Returns the gradient's buffers, which do not change until the step is complete; the sending thread calls it.
            lr: This step's learning rate.
        """

        def parts() -> list[Buffer]:
            buffers = gradient()
            packed = self._packed(tensor, buffers)
            compress = COMPRESS_NONE if packed is None else self._job.compress
            push = Push(tensor.name, tensor.epoch, tensor.step, lr, compress)
            buffers = buffers if packed is None else packed
            return [_frame(push, buffers), *buffers, frame_of(Pull(tensor.name, tensor.epoch, tensor.step + 1))]

        tensor.request(parts, _parameters_from(tensor.step + 1))
        self._links.send(tensor)

    def _packed(self, tensor: ClientTensor, buffers: Sequence[Buffer]) -> Sequence[Buffer] | None:
        if self._job.compress == COMPRESS_NONE:
            return None
        return packed(b"".join(buffers) if len(buffers) > 1 else buffers[0], tensor.element_bytes)

    def complete(self, tensors: Sequence[ClientTensor]) -> None:
        """Wait until the parameters of pushed tensors have arrived.

        Raises:
            StepRefused: The service refuses the step.
            Unavailable: A master copy cannot be found for too long.
        """
        self._complete(tensors)
        for tensor in tensors:
            tensor.step += 1

    def pull_state(self, tensor: ClientTensor, place: memoryview) -> TensorState:
        """Return the message with the counts; the parameters, then the optimizer's state, are written to `place`."""
        tensor.state_place = place
        self._exchange(
            tensor,
            lambda: [frame_of(PullState(tensor.name, tensor.epoch, tensor.step))],
            lambda answer: isinstance(answer, TensorState),
        )
        answer = tensor.answer
        assert isinstance(answer, TensorState)
        return answer

    def close(self) -> None:
        """Close all connections."""
        self._links.close()

    def _exchange(self, tensor: ClientTensor, parts: Parts, awaited: Callable[[Any], bool]) -> None:
        tensor.request(parts, awaited)
        self._links.send(tensor)
        self._complete([tensor])

    def _complete(self, tensors: Sequence[ClientTensor], declared: bool = True) -> None:
        if not declared:
            for tensor in tensors:
                self._links.send(tensor)
        while waiting := [tensor for tensor in tensors if tensor.waits]:
            for tensor in waiting:
                if tensor.refused or not self._links.on_its_way(tensor):
                    self._repeat(tensor, declared)
            self._links.receive({tensor.address for tensor in waiting})
        for tensor in tensors:
            tensor.parts = None
            if isinstance(tensor.answer, Parameters) and tensor.answer.moved_to:
                tensor.set_master(tensor.answer.moved_to, tensor.answer.moved_epoch)

    def _repeat(self, tensor: ClientTensor, declared: bool) -> None:
        """Find the master copy and send the request there."""
        self._find(tensor, declared)
        tensor.refused = False
        if tensor.waits:
            self._links.send(tensor)

    # -- where a tensor is --------------------------------------------------------------------------------------------------

    def _find(self, tensor: ClientTensor, declared: bool = True) -> Located:
        """Set the tensor's address and epoch to those of its master copy.

        Args:
            tensor: The tensor.
            declared: Whether this run of the job has declared it. Else a tensor of an older run is a master copy, too, and so is
                the assigned aggregator where none has it.
        """
        deadline = time.monotonic() + self._locate_timeout_s
        lost_at = float("inf")
        for pause in _pauses():
            listed = self._directory.addresses()
            answers: dict[str, Located | None] = {}
            for address in dict.fromkeys([tensor.address, *tensor.before, *listed]):
                answers[address] = self._links.locate(address, tensor)
                if found := self._followed(address, answers[address], tensor, declared):
                    return found
                if not tensor.waits and tensor.parts is not None:
                    return Located(tensor.name, "answered", "", 0, 0, 0)  # the answer has arrived meanwhile
            first = answers[tensor.address]
            if not declared and first is not None and first.state == "unknown":
                return first
            is_lost = declared and tensor.epoch > 0 and self._is_lost(answers, tensor, listed)
            lost_at = min(lost_at, time.monotonic() + LOST_AFTER_S) if is_lost else float("inf")
            if time.monotonic() > lost_at:
                raise TensorLost(
                    f"parameter service: the master copy of tensor {tensor.name} is lost: resume from the checkpoint"
                )
            _pause_until(deadline, pause, f"tensor {tensor.name}: no aggregator has its master copy")
        raise AssertionError("the loop ends by a return or an exception")

    def _is_lost(self, answers: dict[str, Located | None], tensor: ClientTensor, listed: list[str]) -> bool:
        """Return whether no aggregator has a master copy that this run has used before.

        An aggregator that gave it up would name the next one. So it is lost where the last known master does not know it, or
        where none of the aggregators of a complete directory does.
        """
        unknown = [address for address, found in answers.items() if found and (found.state, found.epoch) == UNKNOWN]
        everywhere = self._directory.is_complete() and bool(listed) and set(listed) <= set(unknown)
        answered = [address for address, found in answers.items() if found]
        return unknown == answered and (everywhere or tensor.address in unknown)

    def _followed(self, address: str, located: Located | None, tensor: ClientTensor, declared: bool) -> Located | None:
        """Take over an answer, one step further where it names another aggregator."""
        if located is None:
            return None
        if located.state == "active" and (located.run == self._job.run or not declared):
            tensor.set_master(address, located.epoch)
            return located
        if located.state not in {"leaving", "moved"} or (located.run != self._job.run and declared):
            return None
        there = self._links.locate(located.address, tensor)
        states = {"active", "staged", "unknown"} if located.state == "leaving" and declared else {"active"}
        if there is None or there.state not in states or there.epoch < located.epoch:
            return None
        tensor.set_master(located.address, there.epoch)
        return there


def _parameters_from(version: int) -> Callable[[Any], bool]:
    return lambda answer: isinstance(answer, Parameters) and answer.version >= version


def _frame(content: Any, payload: Sequence[Buffer]) -> bytes:
    return frame_of(content, sum(memoryview(part).nbytes for part in payload))


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _pause_until(deadline: float, pause: float, problem: str) -> None:
    if time.monotonic() >= deadline:
        raise Unavailable(f"parameter service: {problem}")
    time.sleep(pause)
