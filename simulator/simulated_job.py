"""A simulated job, and many jobs in columns. Both compute what a policy sees by the same formulas."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Values, known, larger, where
from tiresias.scheduler.estimates.claims import Claim
from tiresias.scheduler.evict.protection import first_step
from tiresias.scheduler.model import JobState

NEVER = float("nan")
FIRST_CLAIM_S = 30.0  # seconds of work until the pace of a job that reports is measured
_WAITING = int(JobState.WAITING)
_ROUNDING_S = 1e-6


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
    claimed_total: Values  # claimed seconds of work in all; nan: the job does not report
    claimed_part: Values  # of what is left by that, the part that it claims
    owner_trust: Values  # weight of its owner's claims
    owner_stretch: Values  # factor by which its owner's jobs take longer than claimed
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
        works = where(self.state == JobState.RUNNING, larger(0.0, self.now - self.idle_until) / self.slow, 0.0)
        return self.duration - self.done - works

    @property
    def claim_trust(self) -> Values:
        """The weight of its claims: 0 once the job has worked past them."""
        claims = self.claims
        return where(claims.at + _ROUNDING_S < claims.trusted_until, self.owner_trust, 0.0)

    @property
    def claims(self) -> Claim:
        """The claims of a job that reports since its first FIRST_CLAIM_S seconds of work."""
        worked, total, part = self.duration - self.remaining, self.claimed_total, self.claimed_part
        claim = Claim(worked, part * (total - worked), FIRST_CLAIM_S, part * (total - FIRST_CLAIM_S))
        return claim.stretched(self.owner_stretch)


def _claimed(work: _Work) -> Values:
    claims = work.claims
    return where(claims.at + _ROUNDING_S < FIRST_CLAIM_S, math.nan, claims.remaining(claims.at))


def _ran(work: _Work) -> Values:
    return work.held - work.uncounted + where(work.state == _WAITING, 0.0, work.now - work.last_start)


class SimulatedJob(_Work):
    """One job of a simulation; methods change its state at a moment `now`, seconds."""

    __slots__ = (
        "claimed_part", "claimed_total", "done", "duration", "ends", "first_start", "gpus", "held", "idle_until", "last_start",
        "movable_from", "now", "owner_stretch", "owner_trust", "preempted", "preemptions", "ran", "reset", "row", "slow", "stamp",
        "state", "submit", "uncounted",
    )  # fmt: skip

    def __init__(self, row: int, gpus: int, submit: float, duration: float) -> None:
        self.row, self.gpus, self.submit, self.duration = row, gpus, submit, duration
        self.state = _WAITING
        self.first_start = self.last_start = self.idle_until = self.preempted = NEVER
        self.reset = self.movable_from = -math.inf
        self.ends = math.inf  # while it runs: the moment at which its work is done
        self.held = self.uncounted = self.done = 0.0
        self.slow = self.claimed_part = self.owner_trust = self.owner_stretch = 1.0
        self.claimed_total = NEVER
        self.preemptions = 0
        self.stamp = 0  # number of changes; an expected event with an older stamp is out of date
        self.at(submit)

    def at(self, now: float) -> None:
        """Compute what depends on the time, as `_ran` does for columns."""
        self.now = now
        ran = self.held - self.uncounted
        self.ran = ran if self.state == _WAITING else ran + (now - self.last_start)

    @property
    def claimed_remaining(self) -> float | None:
        """Seconds of work left by its reports, corrected; nan: no claim counts now; None: it does not report."""
        return None if math.isnan(self.claimed_total) else float(_claimed(self))

    def claim_changes(self) -> float:
        """Return when the first claim of the job is made, or its claims do not count any more, while it runs; inf: neither."""
        if self.state != JobState.RUNNING or math.isnan(self.claimed_total):
            return math.inf
        moments = (self.idle_until + (at - self.done) * self.slow for at in (FIRST_CLAIM_S, self.claims.trusted_until))
        return min((moment for moment in moments if moment > self.now + _ROUNDING_S), default=math.inf)

    def resize(self, gpus: int) -> None:
        """Set the number of GPUs, before the first start. The work is the same: on half the GPUs it takes twice as long."""
        self.duration *= self.gpus / gpus
        self.claimed_total *= self.gpus / gpus
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
        self.state, self.last_start, self.idle_until, self.slow = int(JobState.RUNNING), now, now + overhead, slow
        self.movable_from = max(
            self._progressed(minimum_run, config), known(self.preempted, -math.inf) + config.cooldown
        )
        if config.max_preemptions and self.preemptions >= config.max_preemptions:
            self.movable_from = math.inf
        self.first_start = known(self.first_start, now)
        self._happened(now)
        self.ends = self.idle_until + self.remaining * slow

    def _progressed(self, minimum_run: float, config: PolicyConfig) -> float:
        """When the job has made progress for its minimum run time; as `protection.protected_until`."""
        if minimum_run <= 0:
            return float(self.last_start)
        return float(first_step(self.last_start, self.idle_until, config) + minimum_run)

    def preempt(self, now: float, overhead: float) -> None:
        """Stop the work; the job holds its GPUs for another `overhead` seconds."""
        self.at(now)
        self.done = self.duration - self.remaining
        self.state, self.idle_until = int(JobState.RELEASING), now + overhead
        self.preemptions += 1
        self._happened(now)

    def fail(self, now: float, checkpoint_interval: float) -> float:
        """Return the job to its last checkpoint and let it wait. Returns the lost seconds of work."""
        self.at(now)
        worked = max(0.0, now - self.idle_until) / self.slow if self.state == JobState.RUNNING else 0.0
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

    @property
    def claimed_remaining(self) -> Values:
        """As of a `SimulatedJob`; None: none of the jobs reports."""
        return None if np.isnan(self.claimed_total).all() else _claimed(self)

    def __getattr__(self, name: str) -> Values:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._arrays[name][: len(self._at)]


_FIELDS = {
    "row": np.int64, "gpus": np.int64, "submit": np.float64, "duration": np.float64, "state": np.int64,
    "first_start": np.float64, "last_start": np.float64, "idle_until": np.float64, "preempted": np.float64,
    "reset": np.float64, "held": np.float64, "uncounted": np.float64, "done": np.float64,
    "slow": np.float64, "claimed_total": np.float64, "claimed_part": np.float64, "owner_trust": np.float64,
    "owner_stretch": np.float64,
}  # fmt: skip
