"""What measures the use of a job's GPUs."""

from __future__ import annotations

from typing import Protocol


class MeterUnavailable(Exception):
    """A meter does not exist on this node, or cannot measure the job's GPUs."""


class Meter(Protocol):
    """What measures the use of GPUs. source: a key of SOURCES."""

    source: str

    def use(self) -> list[float]:
        """Return the use of each GPU, 0 to 1. Raises MeterUnavailable."""
