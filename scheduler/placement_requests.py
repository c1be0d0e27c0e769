"""The placement request of each job in one decision: its nodes and features, its style, and whether it needs the fewest nodes."""

from __future__ import annotations

import math

import numpy as np

from tiresias.scheduler.interference_table import UNKNOWN_KIND
from tiresias.scheduler.model import Ints, Snapshot, Style
from tiresias.scheduler.place.free_capacity import PlacementRequest
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.place.speed_needs import ALL_ALIKE, LOCALITY_PENALTY, SpeedNeeds

_STYLES = 1000  # more than there are codes
_CONSOLIDATE = int(Style.CONSOLIDATE)  # compares faster


class PlacementRequests:
    """The placement requests of the jobs of a snapshot, by row.

    Args:
        snapshot: The jobs.
        placer: The placer of the decision.
    """

    def __init__(self, snapshot: Snapshot, placer: Placer) -> None:
        jobs = snapshot.jobs
        self._time, self._jobs, self._placer = snapshot.time, jobs, placer
        style = np.zeros(len(jobs), np.int64) if jobs.style is None else jobs.style
        self._until = np.full(len(jobs), -math.inf) if jobs.packed_until is None else jobs.packed_until
        waits = jobs.packed_until is not None
        packed = (style == _CONSOLIDATE) & (snapshot.time < self._until) if waits else np.zeros(len(jobs), np.bool_)
        self._style: list[int] = style.tolist()  # Python's numbers: they are read one by one
        self._packed: list[bool] = packed.tolist()
        kinds = jobs.interference_kind if snapshot.interference is not None else None
        self._job_kind: list[int] = [UNKNOWN_KIND] * len(jobs) if kinds is None else kinds.tolist()
        self._speed, speed = _speed_needs(snapshot)
        # Of each job one number for its style, whether it is packed, its kind and its needs of speed: a key of two numbers is
        # compared faster.
        choice = style * 2 + packed if kinds is None else (kinds + 1) * _STYLES * 2 + style * 2 + packed
        choice = choice if speed is None else choice + speed * (int(choice.max(initial=0)) + 1)
        self._choice: list[int] = choice.tolist()
        # by identity, which is faster than by value: the snapshot keeps its requests, and equal ones are mostly one object
        self._kinds: dict[tuple[int, int], PlacementRequest] = {}

    def of(self, row: int) -> PlacementRequest:
        """Return the request of a job as it holds now."""
        request = self._jobs.request[row]
        key = id(request), self._choice[row]
        kind = self._kinds.get(key)
        if kind is None:
            job_kind, speed = self._job_kind[row], self._speed[row]
            kind = self._placer.kind(request, self._style[row], self._packed[row], job_kind, speed)
            self._kinds[key] = kind
        return kind

    def on_any_nodes(self, row: int) -> PlacementRequest:
        """Return the request of a job without the wait for the fewest nodes."""
        job_kind, speed = self._job_kind[row], self._speed[row]
        return self._placer.kind(self._jobs.request[row], self._style[row], job_kind=job_kind, speed=speed)

    def packed_s(self, row: int) -> float:
        """Return the seconds for which the job waits for the fewest nodes; inf where it does not wait for them."""
        return float(self._until[row] - self._time) if self._packed[row] else math.inf

    def possible(self, row: int) -> bool:
        """Return whether the job could run on the empty cluster."""
        return self._placer.possible(self._placer.kind(self._jobs.request[row]), int(self._jobs.gpus[row]))


def _speed_needs(snapshot: Snapshot) -> tuple[list[SpeedNeeds], Ints | None]:
    """Return the needs of each job, and a number for each that equal needs share; None: no speeds of nodes are known."""
    jobs = snapshot.jobs
    if snapshot.nodes.slowness is None:
        return [ALL_ALIKE] * len(jobs), None
    sensitivity = np.ones(len(jobs)) if jobs.speed_sensitivity is None else jobs.speed_sensitivity
    penalty = np.full(len(jobs), LOCALITY_PENALTY) if jobs.locality_penalty is None else jobs.locality_penalty
    needs = list(map(SpeedNeeds, sensitivity.tolist(), penalty.tolist()))
    number = {one: at for at, one in enumerate(dict.fromkeys(needs))}
    return needs, np.array([number[one] for one in needs], np.int64)
