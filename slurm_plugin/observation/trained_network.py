"""The network of placement.weights, by which jobs are placed where placement.style is learned."""

from __future__ import annotations

import math
from pathlib import Path

from tiresias.scheduler.place.learned.weights_file import PlacementWeights, WeightsError, load
from tiresias.scheduler.topology_tree import Topology
from tiresias.slurm_plugin.config import Placement

LEARNED = "learned"
POLL_INTERVAL_S = 60.0

_State = tuple[int, int, int]  # of a file: inode, size and time of its last change


class TrainedNetwork:
    """The weights of the file, read again where the file changes, and why they are not used."""

    def __init__(self, placement: Placement) -> None:
        self._is_used, self._file = placement.style == LEARNED, placement.weights
        self._state: _State | None = None
        self._read_at = -math.inf
        self._weights: PlacementWeights | None = None
        self._topology: Topology | None = None
        self._problem = self._unfit = ""

    def of(self, topology: Topology, now: float) -> PlacementWeights | None:
        """Return the weights; None: the style is not learned, or they cannot be used for this topology.

        Args:
            topology: Of all managed nodes.
            now: Epoch seconds.
        """
        if not self._is_used:
            return None
        if not self._read_at <= now < self._read_at + POLL_INTERVAL_S:
            self._read_at = now
            self._read()
        if self._weights is not None and topology is not self._topology:
            self._topology, self._unfit = topology, why_unfit(self._weights, topology, self._file)
        return None if self._problem or self._unfit else self._weights

    def alarms(self) -> list[str]:
        """Return one line where the style is learned and the weights are not used."""
        problem = self._problem or self._unfit
        return [f"jobs are placed by least_interference: {problem}"] if problem else []

    def published(self) -> dict[str, object] | None:
        """Return the part of the published status on it; None: the style is not learned."""
        if not self._is_used:
            return None
        problem = self._problem or self._unfit
        return {"used": not problem, "file": self._file, "why": problem}

    def _read(self) -> None:
        if not self._file:
            self._problem = missing()
            return
        state = _state(self._file)
        if state is None or state != self._state:
            self._state, self._topology, self._weights, self._problem = state, None, None, ""
            try:
                self._weights = load(Path(self._file))
            except WeightsError as error:
                self._problem, self._unfit = str(error), ""


def missing() -> str:
    """Return the line for a style learned without a file."""
    return "placement.style is learned and placement.weights names no file; set it, or another style"


def why_unfit(weights: PlacementWeights, topology: Topology, file: str) -> str:
    """Return why weights cannot be used for a topology; "": they can."""
    try:
        weights.check(topology, file)
    except WeightsError as error:
        return str(error)
    return ""


def _state(file: str) -> _State | None:
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
