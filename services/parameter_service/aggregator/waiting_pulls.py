"""The pulls of one tensor whose version does not exist yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tiresias.services.parameter_service.messages.agent_messages import Pull, PullState
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.session_messages import Refused


@dataclass(frozen=True, slots=True)
class WaitingPull:
    """A pull, and since when it waits, in seconds of time.monotonic()."""

    connection: Connection
    content: Pull | PullState
    since: float


class WaitingPulls:
    """They wait in the order of their arrival."""

    def __init__(self) -> None:
        self._pulls: list[WaitingPull] = []

    def add(self, connection: Connection, content: Pull | PullState) -> None:
        """Add a pull."""
        self._pulls.append(WaitingPull(connection, content, time.monotonic()))

    def take(self, ready: Callable[[Pull | PullState], bool]) -> list[WaitingPull]:
        """Remove and return those that can be answered."""
        found = [pull for pull in self._pulls if ready(pull.content)]
        self._pulls = [pull for pull in self._pulls if not ready(pull.content)]
        return found

    def refuse(self, refusal: Callable[[int], Refused]) -> None:
        """Answer all of them; `refusal` is called with the step of each."""
        pulls, self._pulls = self._pulls, []
        for pull in pulls:
            pull.connection.send(refusal(pull.content.step))

    def forget(self, connection: Connection) -> None:
        """Drop the pulls of a connection that has ended."""
        self._pulls = [pull for pull in self._pulls if pull.connection is not connection]

    def waited_s(self, now: float) -> float:
        """Return the seconds since the first one arrived; 0 without any."""
        return max((now - pull.since for pull in self._pulls), default=0.0)
