"""All connections of an agent: requests of many tensors are on their way at once, and each answer is given to its tensor."""

from __future__ import annotations

import select
from typing import Any

from tiresias.errors import TiresiasError, UsageError, one_line
from tiresias.services.parameter_service.agent.aggregator_link import AggregatorLink
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.parameter_service.messages.agent_messages import Locate, Located, Parameters, TensorState
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.channel import ConnectionLost, frame_of
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.session_messages import Refused
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, most_packed_bytes, unpack

TRANSFER_TIMEOUT_S = 30.0
POLL_S = 1.0


class StepRefused(UsageError):
    """The service refuses a request of this job; repeating it does not help."""


class AggregatorLinks:
    """The connections to the aggregators of a job.

    Args:
        job: This process.

    Attributes:
        tensors: The job's tensors, by name.
    """

    def __init__(self, job: ServiceJob) -> None:
        self._job = job
        self._links: dict[str, AggregatorLink] = {}
        self.tensors: dict[str, ClientTensor] = {}

    def on_its_way(self, tensor: ClientTensor) -> bool:
        """Return whether the connection on which a request was sent is the present one."""
        link = self._links.get(tensor.address)
        return link is not None and link is tensor.sent_on and link.alive

    def send(self, tensor: ClientTensor) -> None:
        """Send a tensor's request where the tensor is; without a connection nothing is sent."""
        assert tensor.parts is not None
        try:
            link = tensor.sent_on = self._link(tensor.address)
            link.send(tensor.parts)
        except TiresiasError:
            self.drop(tensor.address)

    def locate(self, address: str, tensor: ClientTensor) -> Located | None:
        """Ask one aggregator where a tensor is; None where it cannot be asked."""
        try:
            link = self._link(address)
            link.send(lambda: [frame_of(Locate(tensor.name))])
            while True:
                content = link.receive(self._place)
                if isinstance(content, Located) and content.tensor == tensor.name:
                    return content
                self._process(content, address)
        except StepRefused:
            raise
        except TiresiasError:
            self.drop(address)
            return None

    def receive(self, addresses: set[str]) -> None:
        """Process what arrives from some aggregators; a lost connection is dropped."""
        links = [link for address, link in self._links.items() if address in addresses]
        for link in [link for link in links if not link.alive]:
            self.drop(link.address)
            links.remove(link)
        for link in select.select(links, [], [], POLL_S)[0] if links else ():
            try:
                self._process(link.receive(self._place), link.address)
            except ConnectionLost:
                self.drop(link.address)

    def drop(self, address: str) -> None:
        """Close a connection."""
        if link := self._links.pop(address, None):
            link.close()

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._links):
            self.drop(address)

    def _link(self, address: str) -> AggregatorLink:
        link = self._links.get(address)
        if link is None or not link.alive:
            self.drop(address)
            self._links[address] = AggregatorLink(self._job, address, TRANSFER_TIMEOUT_S)
        return self._links[address]

    def _place(self, content: Any, payload_bytes: int) -> memoryview:
        """Return the place of an awaited answer, and scratch memory for one that has arrived before."""
        tensor = self.tensors.get(getattr(content, "tensor", ""))
        if tensor is None or not isinstance(content, Parameters | TensorState):
            raise BadFrame(f"{type(content).__name__} with a payload from an aggregator")
        if not tensor.waits or not tensor.awaited(content):
            return memoryview(bytearray(payload_bytes))
        if isinstance(content, Parameters) and content.compress != COMPRESS_NONE:
            tensor.packed = self._packed_place(tensor, content, payload_bytes)
            return tensor.packed
        place = tensor.place if isinstance(content, Parameters) else tensor.state_place
        assert place is not None
        return place

    def _packed_place(self, tensor: ClientTensor, content: Parameters, payload_bytes: int) -> memoryview:
        if content.compress != self._job.compress:
            raise StepRefused(
                f"tensor {tensor.name}: an aggregator compresses by {content.compress[:40]!r}, and the job file has "
                f"{self._job.compress!r}: register the job anew"
            )
        if payload_bytes > most_packed_bytes(tensor.bytes):
            raise BadFrame(f"tensor {tensor.name}: {payload_bytes} compressed bytes of {tensor.bytes}")
        return memoryview(bytearray(payload_bytes))

    def _process(self, content: Any, address: str) -> None:
        tensor = self.tensors.get(getattr(content, "tensor", ""))
        if isinstance(content, Refused) and content.code == refusal_codes.FATAL:
            raise StepRefused(one_line(content.text))
        if tensor is None:
            raise ConnectionLost(f"{address}: {one_line(getattr(content, 'text', content))}")
        if not tensor.waits or tensor.address != address:
            return  # the answer of a request that was repeated elsewhere
        if isinstance(content, Refused):
            tensor.refused = True
        elif tensor.awaited(content):
            _unpack(tensor, content)
            tensor.answer = content


def _unpack(tensor: ClientTensor, content: Any) -> None:
    packed, tensor.packed = tensor.packed, None
    if packed is not None and isinstance(content, Parameters) and content.compress != COMPRESS_NONE:
        unpack(packed, tensor.place)
