"""Progress reports in a simulation: which jobs report, what they claim, and what is learned of their owners' claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.estimates.claims import FIRST_CLAIM_S, Trust
from tiresias.scheduler.model import Bools, Floats
from tiresias.simulator.formats.trace_columns import grouped
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.trace import Trace

_UNKNOWN = Trust()
_NEWS = 0.01  # change of an owner's trust that changes the ranks of the owner's jobs
_LIE = 0.1  # part of what is left that a liar claims


@dataclass(frozen=True, slots=True)
class Reporting:
    """Which jobs of a trace report their progress.

    Attributes:
        share: Share of the jobs that report; None: those with `total_steps` in the trace.
        error: The claimed total of each of them is wrong by a factor between 1 / `error` and `error`, even in its logarithm.
        liars: Share of the jobs that always claim a tenth of what is left, whether they would report or not. In a trace with users
            these are all jobs of some users: as many as have that share, at least one.
        seed: Of the random numbers. A job that reports at one share also reports at every larger one.
    """

    share: float | None = None
    error: float = 1.0
    liars: float = 0.0
    seed: int = 1

    def claims(self, trace: Trace) -> Claims:
        """Return what the jobs of the trace claim."""
        chosen, wrong, lying = np.random.default_rng(self.seed).random((3, len(trace)))
        total = _of_trace(trace) if self.share is None else np.where(chosen < self.share, trace.duration, np.nan)
        lies = _liars(trace, lying, self.liars)
        total = np.where(lies, trace.duration, total * self.error ** (2.0 * wrong - 1.0))
        return Claims(total, np.where(lies, _LIE, 1.0), trace.user)


def _liars(trace: Trace, order: Floats, share: float) -> Bools:
    """Return which jobs lie. order: random numbers, of the jobs or of the first job of each user."""
    names, user = grouped(trace.user)
    if not share or names in ([], [""]):
        return order < share
    jobs = np.bincount(user)
    chosen = np.argsort(order[: len(names)])
    some = chosen[: np.searchsorted(np.cumsum(jobs[chosen]), share * len(trace), side="right") or 1]
    return np.isin(user, some)


def _of_trace(trace: Trace) -> Floats:
    return trace.claimed_total if len(trace.claimed_total) else np.full(len(trace), np.nan)


class Claims:
    """The claims of the jobs of a trace during one simulation.

    Args:
        total: Claimed seconds of work in all, shape (jobs,); nan: the job does not report.
        part: Part of what is left by `total` that the job claims, shape (jobs,).
        user: Owner of each job; "": not known.

    Attributes:
        total, part: As given.
    """

    def __init__(self, total: Floats, part: Floats, user: Sequence[str]) -> None:
        self.total, self.part, self._user = total.tolist(), part.tolist(), user
        self._trust: dict[str, Trust] = {}

    def give(self, job: SimulatedJob) -> None:
        """Set what a submitted job claims."""
        job.claimed_total, job.claimed_part = self.total[job.row], self.part[job.row]
        self.weigh(job)

    def weigh(self, job: SimulatedJob) -> None:
        """Set what the claims of the job's owner are worth by now."""
        trust = self._trust.get(self._user[job.row], _UNKNOWN)
        job.owner_trust, job.owner_stretch = trust.weight, trust.stretch

    def learn(self, job: SimulatedJob, there: Iterable[SimulatedJob]) -> list[SimulatedJob]:
        """Learn what the claims of a completed job were worth, and set it for the owner's other jobs.

        Args:
            job: The job.
            there: The jobs that wait or run.

        Returns:
            The other jobs of its owner that report, where the worth of their claims has changed.
        """
        user, total, part = self._user[job.row], self.total[job.row], self.part[job.row]
        if not user or math.isnan(total) or job.duration <= FIRST_CLAIM_S:
            return []
        before = self._trust.get(user, _UNKNOWN)
        after = self._trust[user] = before.learned(part * (total - FIRST_CLAIM_S), job.duration - FIRST_CLAIM_S)
        if abs(math.log(after.stretch / before.stretch)) + abs(after.weight - before.weight) < _NEWS:
            return []
        owners = [other for other in there if self._user[other.row] == user and not math.isnan(other.claimed_total)]
        for other in owners:
            self.weigh(other)
        return owners
