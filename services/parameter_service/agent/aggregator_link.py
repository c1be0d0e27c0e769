"""An agent's connection to one aggregator: a thread sends, so that the backward pass does not wait for the network."""

from __future__ import annotations

import queue
import threading
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.services.parameter_service.agent.client_tensor import Parts
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.wire.channel import Channel, ConnectionLost, Place
from tiresias.services.wire.peer_identity import agent_identity

CONNECT_TIMEOUT_S = 20.0


class AggregatorLink:
    """The frames to and from one aggregator.

    Args:
        job: This process.
        address: The aggregator.
        transfer_timeout_s: Seconds without a byte in a transfer.

    Raises:
        TiresiasError: No connection.
    """

    def __init__(self, job: ServiceJob, address: str, transfer_timeout_s: float) -> None:
        self.address = address
        identity = agent_identity(job.name, job.rank, job.run)
        self._channel = Channel.connect(address, identity, job.key, CONNECT_TIMEOUT_S)
        self._channel.set_timeout(transfer_timeout_s)
        self._parts: queue.SimpleQueue[Parts | None] = queue.SimpleQueue()
        self._failure: TiresiasError | None = None
        threading.Thread(target=self._send_all, name=f"to {address}", daemon=True).start()

    def send(self, parts: Parts) -> None:
        """Send frames; `parts` is called by the sending thread, and may wait for the data there."""
        self._parts.put(parts)

    def _send_all(self) -> None:
        while (parts := self._parts.get()) is not None:
            try:
                self._channel.send_frames(parts())
            except TiresiasError as error:
                self._failure = error
                self._channel.shut_down()  # what waits for an answer fails now
                return

    def receive(self, place: Place) -> Any:
        """Return the next message.

        Raises:
            ConnectionLost: The connection ended, in either direction.
        """
        if self._failure is not None:
            raise ConnectionLost(str(self._failure))
        return self._channel.receive(place)

    @property
    def alive(self) -> bool:
        """Whether nothing has failed in sending."""
        return self._failure is None and self._channel.fileno() >= 0

    def fileno(self) -> int:
        """Return the socket's descriptor, -1 after close()."""
        return self._channel.fileno()

    def close(self) -> None:
        """Close the connection and end the thread."""
        self._parts.put(None)
        self._channel.close()
