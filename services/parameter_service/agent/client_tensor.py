"""A tensor, or a block of one, as one rank has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiresias.services.wire.channel import Buffer

Parts = Callable[[], Sequence[Buffer]]


@dataclass(eq=False, slots=True)
class ClientTensor:
    """The state of a tensor's requests.

    Attributes:
        name: Its name in the service.
        bytes: Of the parameters, and of a gradient.
        place: Where pulled parameters are written.
        address: The aggregator that has the master copy.
        epoch: The epoch of that assignment.
        step: The steps that this rank has completed.
        before: Addresses where it was.
        parts: Returns the frames of the present request; None between two requests.
        awaited: Whether a message is the answer of the present request.
        answer: The message that has answered it.
        sent_on: The connection on which the request was sent.
        refused: Whether the request is to be repeated where the master copy is now.
        state_place: Where the next TensorState is written.
        element_bytes: Of one number.
        packed: The compressed parameters that are being received.
    """

    name: str
    bytes: int
    place: memoryview
    address: str = ""
    epoch: int = 0
    step: int = 0
    before: list[str] = field(default_factory=list)
    parts: Parts | None = None
    awaited: Callable[[Any], bool] = bool
    answer: Any = None
    sent_on: Any = None
    refused: bool = False
    state_place: memoryview | None = None
    element_bytes: int = 4
    packed: memoryview | None = None

    def request(self, parts: Parts, awaited: Callable[[Any], bool]) -> None:
        """Begin a request."""
        self.parts, self.awaited, self.answer, self.refused, self.sent_on = parts, awaited, None, False, None

    @property
    def waits(self) -> bool:
        """Whether a request is not answered."""
        return self.parts is not None and self.answer is None

    def set_master(self, address: str, epoch: int) -> None:
        """Take note of where the master copy is."""
        if self.address != address:
            self.before = [self.address, *[each for each in self.before if each != address]][:4]
        self.address, self.epoch = address, epoch
