"""A simulated job, and many jobs in columns. Both compute what a policy sees by the same formulas."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values, known, larger, where
from tiresias.scheduler.evict.protection import first_step
from tiresias.scheduler.model import JobState

NEVER = float("nan")
_WAITING, _RUNNING, _RELEASING = int(JobState.WAITING), int(JobState.RUNNING), int(JobState.RELEASING)


class _Work:
    """The values of a job at the moment `now`. Service counts all seconds on GPUs, also those without progress."""

    __slots__ = ()
    row: Values
    gpus: Values
    submit: Values
    duration: Values  # seconds of work
    now: Values
    state: Values
    first_start: Values
    last_start: Values
    idle_until: Values  # so long it holds GPUs without progress, at the beginning of a run or at its end
    preempted: Values  # when it last went back to waiting
    reset: Values  # when it was last promoted
    held: Values  # seconds on GPUs in earlier runs
    uncounted: Values  # seconds on GPUs before the last promotion
    done: Values  # seconds of work in earlier runs
    slow: Values  # seconds that a second of work takes where it runs
    ran: Values  # seconds on GPUs since the last promotion: `_ran`
    preemption_cost = None  # not measured: the policy's configuration has it

    @property
    def attained(self) -> Values:
        return self.ran * self.gpus

    @property
    def waited(self) -> Values:
        return self.now - larger(self.submit, self.reset) - self.ran

    @property
    def remaining(self) -> Values:
        """Seconds of work left."""
        works = where(self.state == _RUNNING, larger(0.0, self.now - self.idle_until) / self.slow, 0.0)
        return self.duration - self.done - works


def _ran(work: _Work) -> Values:
    return work.held - work.uncounted + where(work.state == _WAITING, 0.0, work.now - work.last_start)


class SimulatedJob(_Work):
    """One job of a simulation; methods change its state at a moment `now`, seconds."""

    __slots__ = (
        "done", "duration", "ends", "first_start", "gpus", "held", "idle_until", "last_start", "movable_from", "now", "preempted",
        "preemptions", "ran", "reset", "row", "slow", "stamp", "state", "submit", "uncounted",
    )  # fmt: skip

    def __init__(self, row: int, gpus: int, submit: float, duration: float) -> None:
        self.row, self.gpus, self.submit, self.duration = row, gpus, submit, duration
        self.state = _WAITING
        self.first_start = self.last_start = self.idle_until = self.preempted = NEVER
        self.reset = self.movable_from = -math.inf
        self.ends = math.inf  # while it runs: the moment at which its work is done
        self.held = self.uncounted = self.done = 0.0
        self.slow = 1.0
        self.preemptions = 0
        self.stamp = 0  # number of changes; an expected event with an older stamp is out of date
        self.at(submit)

    def at(self, now: float) -> None:
        """Compute what depends on the time, as `_ran` does for columns."""
        self.now = now
        ran = self.held - self.uncounted
        self.ran = ran if self.state == _WAITING else ran + (now - self.last_start)

    def resize(self, gpus: int) -> None:
        """Set the number of GPUs, before the first start. The work is the same: on half the GPUs it takes twice as long."""
        self.duration *= self.gpus / gpus
        self.gpus = gpus

    def start(
        self, now: float, overhead: float, config: PolicyConfig, minimum_run: float = 0.0, slow: float = 1.0
    ) -> None:
        """Start the job.

        Args:
            now: Simulated time, seconds.
            overhead: Seconds until the job makes progress.
            config: Limits on preemptions (`cooldown`, `max_preemptions`, `protection_limit`).
            minimum_run: Seconds of progress before the job may be preempted.
            slow: Seconds that a second of work takes.
        """
        self.ends = now + overhead + (self.duration - self.done) * slow
        self.state, self.last_start, self.idle_until, self.slow = _RUNNING, now, now + overhead, slow
        self.movable_from = self._progressed(minimum_run, config)
        if config.cooldown:
            self.movable_from = max(self.movable_from, known(self.preempted, -math.inf) + config.cooldown)
        if config.max_preemptions and self.preemptions >= config.max_preemptions:
            self.movable_from = math.inf
        if self.first_start != self.first_start:  # nan: it never ran
            self.first_start = now
        self._happened(now)

    def _progressed(self, minimum_run: float, config: PolicyConfig) -> float:
        """When the job has made progress for its minimum run time; as `protection.protected_until`."""
        if minimum_run <= 0:
            return float(self.last_start)
        return float(first_step(self.last_start, self.idle_until, config) + minimum_run)

    def preempt(self, now: float, overhead: float) -> None:
        """Stop the work; the job holds its GPUs for another `overhead` seconds."""
        self.at(now)
        self.done = self.duration - self.remaining
        self.state, self.idle_until = _RELEASING, now + overhead
        self.preemptions += 1
        self._happened(now)

    def fail(self, now: float, checkpoint_interval: float) -> float:
        """Return the job to its last checkpoint and let it wait. Returns the lost seconds of work."""
        self.at(now)
        worked = max(0.0, now - self.idle_until) / self.slow if self.state == _RUNNING else 0.0
        lost = worked % checkpoint_interval if checkpoint_interval else 0.0
        self.done = self.duration - self.remaining - lost
        self.wait(now)
        return lost

    def wait(self, now: float) -> None:
        """Let the job wait: it has released its GPUs."""
        self.held += now - self.last_start
        self.preempted, self.state, self.ends = now, _WAITING, math.inf
        self._happened(now)

    def promote(self, now: float) -> None:
        """Reset service and waiting time."""
        self.reset, self.uncounted = now, self.held
        self._happened(now)

    def _happened(self, now: float) -> None:
        self.stamp += 1
        self.at(now)


class JobColumns(_Work):
    """Jobs in columns, arrays of shape (jobs,). A job does not change while it is in them."""

    def __init__(self, jobs: Iterable[SimulatedJob] = ()) -> None:
        self._at: dict[int, int] = {}  # place of each row
        self._arrays = {name: np.empty(16, dtype) for name, dtype in _FIELDS.items()}
        for job in jobs:
            self.add(job)

    def __len__(self) -> int:
        return len(self._at)

    def add(self, job: SimulatedJob) -> None:
        """Append a job."""
        place = self._at[job.row] = len(self._at)
        if place == len(self._arrays["row"]):
            self._arrays = {name: np.resize(array, 2 * place) for name, array in self._arrays.items()}
        for name, array in self._arrays.items():
            array[place] = getattr(job, name)

    def remove(self, row: int) -> None:
        """Remove a job, if it is in the columns; the last row takes its place."""
        place = self._at.pop(row, None)
        if place is None or place == len(self._at):
            return
        for array in self._arrays.values():
            array[place] = array[len(self._at)]
        self._at[int(self._arrays["row"][place])] = place

    @property
    def ran(self) -> Values:
        """Seconds on GPUs since the last promotion; a `SimulatedJob` stores it."""
        return _ran(self)

    def __getattr__(self, name: str) -> Values:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._arrays[name][: len(self._at)]


_FIELDS = {
    "row": np.int64, "gpus": np.int64, "submit": np.float64, "duration": np.float64, "state": np.int64,
    "first_start": np.float64, "last_start": np.float64, "idle_until": np.float64, "preempted": np.float64,
    "reset": np.float64, "held": np.float64, "uncounted": np.float64, "done": np.float64,
    "slow": np.float64,
}  # fmt: skip
