"""A client's connection to one donor: data and control share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tiresias.services.remote_memory.client.slab_request import ANSWERED, FAILED, SlabRequest
from tiresias.services.remote_memory.messages.donor_messages import (
    CheckActivity,
    EvictSlabs,
    FreeMemory,
    PagesRead,
    PagesWritten,
    ReadPages,
    SlabMapped,
    WritePages,
)
from tiresias.services.wire.channel import Buffer, Channel, ConnectionLost, frame_of
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.session_messages import Refused

Answer = Callable[[FreeMemory | SlabMapped | None], None]


class DonorEvents(Protocol):
    """What a donor asks a client for, and what has changed. What sends may raise ConnectionLost."""

    def lost(self, address: str) -> None:
        """Note that the connection to a donor has ended."""
        ...

    def written(self, request: SlabRequest) -> None:
        """Note that a donor has stored pages."""
        ...

    def refused(self, request: SlabRequest) -> None:
        """Note that a donor does not have the slab of a request."""
        ...

    def check_activity(self, link: DonorLink, content: CheckActivity) -> None:
        """Report activities."""
        ...

    def evict(self, link: DonorLink, content: EvictSlabs) -> None:
        """Use slabs no longer."""
        ...


class DonorLink:
    """The requests to one donor and its answers.

    Args:
        channel: The authenticated connection.
        events: What its messages lead to.

    Attributes:
        requests: The page requests without an answer.
        pages_in_flight: The pages of these.
    """

    def __init__(self, channel: Channel, events: DonorEvents) -> None:
        self.address = channel.address
        self._channel, self._events = channel, events
        self._number = 0
        self.requests: dict[int, SlabRequest] = {}
        self.pages_in_flight = 0
        self._held: list[Buffer] = []
        self._answers: dict[int, Answer] = {}

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._channel.fileno()

    def send(self, content: Any) -> None:
        """Send a message without an answer.

        Raises:
            ConnectionLost: The donor is lost.
        """
        self._send(content)

    def flush(self) -> None:
        """Send what was held back.

        Raises:
            ConnectionLost: The donor is lost.
        """
        if self._held:
            held, self._held = self._held, []
            self._channel.send_frames(held)

    def ask(self, content: Callable[[int], Any], answer: Answer) -> None:
        """Send a control request; `answer` is called with what the donor answers, None where it refuses or is lost.

        Raises:
            ConnectionLost: The donor is lost.
        """
        self._number += 1
        self._answers[self._number] = answer
        self._send(content(self._number))

    def write(self, request: SlabRequest, offset: int, data: memoryview, held: bool = False) -> None:
        """Send pages; where `held`, with the next message or flush(). The pages must not change any more.

        Raises:
            ConnectionLost: The donor is lost.
        """
        content = WritePages(self._add(request), request.mapping.handle, offset)
        if held:
            self._held += (frame_of(content, len(data)), data)
        else:
            self._send(content, data)

    def read(self, request: SlabRequest, offset: int) -> None:
        """Request pages.

        Raises:
            ConnectionLost: The donor is lost.
        """
        assert request.target is not None
        self._send(ReadPages(self._add(request), request.mapping.handle, offset, len(request.target)))

    def _add(self, request: SlabRequest) -> int:
        self._number += 1
        self.requests[self._number] = request
        self.pages_in_flight += request.pages
        return self._number

    def _take(self, number: int) -> SlabRequest | None:
        request = self.requests.pop(number, None)
        self.pages_in_flight -= request.pages if request else 0
        return request

    def _send(self, content: Any, *payload: memoryview) -> None:
        self.flush()
        self._channel.send(content, *payload)

    def receive(self) -> None:
        """Receive one message and do what it leads to.

        Raises:
            ConnectionLost: The donor is lost, or is silent in the middle of a message.
            BadFrame: It sends what is no answer.
        """
        content = self._channel.receive(self._place)
        if isinstance(content, PagesWritten | PagesRead):
            self._answered(content)
        elif isinstance(content, FreeMemory | SlabMapped):
            self._answer(content.request, content)
        elif isinstance(content, Refused):
            self._refused(content)
        elif isinstance(content, CheckActivity):
            self._events.check_activity(self, content)
        elif isinstance(content, EvictSlabs):
            self._events.evict(self, content)
        else:
            raise BadFrame(f"{self.address}: {type(content).__name__} from a donor")

    def _place(self, content: Any, payload_bytes: int) -> memoryview:
        request = self.requests.get(content.request) if isinstance(content, PagesRead) else None
        if request is None or request.target is None:
            raise BadFrame(f"{self.address}: pages that were not requested")
        return request.target

    def _answered(self, content: PagesWritten | PagesRead) -> None:
        request = self._take(content.request)
        if request is None or (request.target is None) is isinstance(content, PagesRead):
            raise BadFrame(f"{self.address}: {type(content).__name__} without its request")
        request.state = ANSWERED
        if request.target is None:
            self._events.written(request)

    def _answer(self, number: int, content: FreeMemory | SlabMapped | None) -> None:
        answer = self._answers.pop(number, None)
        if answer is None:
            raise BadFrame(f"{self.address}: an answer without its request")
        answer(content)

    def _refused(self, content: Refused) -> None:
        if request := self._take(content.step):
            request.state = FAILED
            self._events.refused(request)
        elif content.step in self._answers:
            self._answer(content.step, None)
        else:
            raise ConnectionLost(f"{self.address}: {content.text}")

    def close(self) -> None:
        """Close the connection; what was not answered has failed."""
        self._channel.close()
        for request in self.requests.values():
            request.state = FAILED
        self.requests.clear()
        self.pages_in_flight = 0
        self._held.clear()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer(None)
