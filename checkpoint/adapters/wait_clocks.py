"""How long one wait for other ranks takes: on the host where it blocks, on a GPU where its stream waits and the host goes on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import torch

MOST_OPEN = 4096  # waits that a GPU has not reached; of more than these the oldest are not counted

Waited = Callable[[float], None]  # is given the seconds of each wait


class WaitClock(Protocol):
    """Measures waits from their starts to their ends."""

    def start(self) -> Any:
        """Return the start of a wait."""
        ...

    def stop(self, began: Any) -> None:
        """Count the wait that began there."""
        ...


class HostClock:
    """Waits that block the calling thread.

    Args:
        waited: Counts the seconds.
    """

    def __init__(self, waited: Waited) -> None:
        self._waited = waited

    def start(self) -> float:
        """Return the monotonic time."""
        return time.monotonic()

    def stop(self, began: float) -> None:
        """Count the time since then."""
        self._waited(time.monotonic() - began)


class StreamClock:
    """Waits of the current stream of a GPU, between two events.

    A wait is counted at the end of a later one, once the GPU has passed both events: the host never waits for the GPU.
    While a stream is captured into a graph nothing is measured: its events have no times.

    Args:
        waited: Counts the seconds.
        device: The GPU.
    """

    def __init__(self, waited: Waited, device: torch.device) -> None:
        self._waited, self._device = waited, device
        self._open: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque(maxlen=MOST_OPEN)
        self._lock = threading.Lock()  # backward passes end in threads of their own

    def start(self) -> torch.cuda.Event | None:
        """Return an event that the stream has recorded; None while it is captured."""
        if torch.cuda.is_current_stream_capturing():
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def stop(self, began: torch.cuda.Event | None) -> None:
        """End the wait, and count those that the GPU has passed."""
        ended = self.start()
        with self._lock:
            if began is not None and ended is not None:
                self._open.append((began, ended))
            while ended is not None and self._open and self._open[0][1].query():
                first, last = self._open.popleft()
                self._waited(first.elapsed_time(last) / 1e3)


def clock_for(device: torch.device, waited: Waited) -> WaitClock | None:
    """Return the clock for waits of a model on this device; None: its waits cannot be measured."""
    if device.type == "cpu":
        return HostClock(waited)
    return StreamClock(waited, device) if device.type == "cuda" else None
