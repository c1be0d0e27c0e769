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

    def __init__(self, read: Callable[[str], str]) -> None:
        """read: asks Slurm for the topology of a name; "": the default one."""
        self._read, self._read_at, self._name = read, -math.inf, ""
        self.levels: tuple[topology.Level, ...] = ()

    def refresh(self, now: float, name: str) -> None:
        """Read the topology of a name (placement.topology) where it is due."""
        if now - self._read_at >= TOPOLOGY_INTERVAL_S or name != self._name:
            self.levels = topology.from_slurm(self._read(name))
            self._read_at, self._name = now, name
