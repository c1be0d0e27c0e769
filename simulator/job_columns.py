"""Many simulated jobs in columns, as policies see them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import numpy as np

from tiresias.scheduler.elementwise import Values
from tiresias.simulator import claimed_work, work
from tiresias.simulator.simulated_job import SimulatedJob

_WHOLE = ("row", "gpus", "state", "servers")
_REALS = (
    "submit", "duration", "first_start", "last_start", "idle_until", "paced_from", "preempted", "reset", "held", "uncounted",
    "done", "slow", "extra", "others", "owner_excess",
    "claimed_total", "claimed_part", "owner_trust", "owner_stretch",
)  # fmt: skip
_FIELDS = np.dtype([(name, np.int64) for name in _WHOLE] + [(name, np.float64) for name in _REALS])
_VALUES = attrgetter(*_WHOLE, *_REALS)


class JobColumns:
    """Jobs in columns, arrays of shape (jobs,), with the names of the attributes of `SimulatedJob`. A job does not change while it
    is in them.

    Attributes:
        now: The moment of the values that depend on the time, seconds.
    """

    now: float
    preemption_cost = None  # not measured: the policy's configuration has it

    def __init__(self, jobs: Iterable[SimulatedJob] = ()) -> None:
        self._at: dict[int, int] = {}  # place of each row
        self._jobs = np.empty(16, _FIELDS)
        for job in jobs:
            self.add(job)

    def __len__(self) -> int:
        return len(self._at)

    def add(self, job: SimulatedJob) -> None:
        """Append a job."""
        place = self._at[job.row] = len(self._at)
        if place == len(self._jobs):
            self._jobs = np.resize(self._jobs, 2 * place)
        self._jobs[place] = _VALUES(job)

    def remove(self, row: int) -> None:
        """Remove a job, if it is in the columns; the last row takes its place."""
        place = self._at.pop(row, None)
        if place is None or place == len(self._at):
            return
        self._jobs[place] = self._jobs[len(self._at)]
        self._at[int(self._jobs["row"][place])] = place

    @property
    def ran(self) -> Values:
        """Seconds on GPUs since the last promotion."""
        return work.ran(self)

    @property
    def attained(self) -> Values:
        """GPU-seconds since the last promotion."""
        return self.ran * self.gpus + self.extra + self.others

    @property
    def waited(self) -> Values:
        """Seconds of waiting since the last promotion."""
        return work.waited(self)

    @property
    def remaining(self) -> Values:
        """Seconds of work left."""
        return work.remaining(self)

    @property
    def claimed_remaining(self) -> Values:
        """Seconds of work left by their reports, corrected; nan: no claim counts now; None: none of the jobs reports."""
        return None if np.isnan(self.claimed_total).all() else claimed_work.remaining(self)

    @property
    def owner_excess(self) -> Values:
        """GPU-seconds that their owners used more than others, by shares; None: owners do not share."""
        excess = self._jobs["owner_excess"][: len(self._at)]
        return None if np.isnan(excess).all() else excess

    @property
    def claim_trust(self) -> Values:
        """Weight of their claims: 0 once a job has worked past them."""
        return claimed_work.trust(self)

    def __getattr__(self, name: str) -> Values:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._jobs[name][: len(self._at)]
