"""The manager's requests to aggregators, authenticated by the service's key, with a short deadline each."""

from __future__ import annotations

import json
from typing import Any

from tiresias.errors import TiresiasError, UsageError
from tiresias.services.parameter_service.messages.aggregator_messages import ReadStatistics
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.peer_identity import service_identity
from tiresias.services.wire.session_messages import Refused

CALL_TIMEOUT_S = 5.0
MAX_STATISTICS_BYTES = 64 << 20


class AggregatorCalls:
    """Connections to aggregators, kept open.

    Args:
        service_key: The key of the service.
    """

    def __init__(self, service_key: bytes) -> None:
        self._key = service_key
        self._channels: dict[str, Channel] = {}

    def request(self, address: str, content: Any) -> Any:
        """Send a request and return the answer.

        Raises:
            UsageError: The aggregator refuses it.
            TiresiasError: It cannot be reached; the next request connects anew.
        """
        try:
            channel = self._channel(address)
            payload = bytearray()

            def place(_: Any, count: int) -> memoryview:
                if count > MAX_STATISTICS_BYTES:
                    raise BadFrame(f"{address}: statistics of {count} bytes")
                payload.extend(bytes(count))
                return memoryview(payload)

            answer = channel.request(content, place=place)
        except TiresiasError:
            self._close(address)
            raise
        if isinstance(answer, Refused):
            raise UsageError(f"{address}: {answer.text}")
        return json.loads(bytes(payload)) if payload else answer

    def statistics(self, address: str) -> dict[str, Any]:
        """Return the statistics of an aggregator. Raises TiresiasError."""
        found = self.request(address, ReadStatistics())
        if not isinstance(found, dict):
            raise BadFrame(f"{address}: no statistics")
        return found

    def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            identity = service_identity("manager")
            self._channels[address] = Channel.connect(address, identity, self._key, CALL_TIMEOUT_S)
        return self._channels[address]

    def _close(self, address: str) -> None:
        if channel := self._channels.pop(address, None):
            channel.close()
