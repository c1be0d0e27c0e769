"""Slurm's topology as it was read last."""

from __future__ import annotations

import math
from collections.abc import Callable

from tiresias.slurm_plugin.cluster import topology

TOPOLOGY_INTERVAL_S = 300.0  # between two readings: it changes when an administrator reconfigures Slurm


class KnownTopology:
    """Attributes:
    levels: the switches and blocks; () where Slurm has none.
    """

    def __init__(self, read: Callable[[], str]) -> None:
        """read: asks Slurm."""
        self._read, self._read_at = read, -math.inf
        self.levels: tuple[topology.Level, ...] = ()

    def refresh(self, now: float) -> None:
        """Read it where it is due."""
        if now - self._read_at >= TOPOLOGY_INTERVAL_S:
            self.levels = topology.from_slurm(self._read())
            self._read_at = now
