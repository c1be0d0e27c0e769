"""Adaptive: jobs that will probably end soon go first, estimated from their run times and from the completed jobs.

A 2D-Gittins policy without thresholds that learns while it runs. A job is ranked by the GPU-seconds that its completion is
expected to cost: its GPUs over its index (`hazard`), which depends on its age alone, the seconds that it has held GPUs in all
runs. One distribution of ages is learned for all jobs, from those that completed and those that are there; names, users and
sizes are not used. A job whose program reports its progress is ranked by its remaining seconds instead, as far as its claims are
trusted (`estimates/claims.py`). What a preemption costs is weighed three times, by the knob `preemption_cost`:

  - a waiting job has to bring in the cost of its start, its own where that was measured: it counts into the index, of jobs that
    never ran too
  - a running job is ranked as if its completion cost a third less
  - a running job is preempted only where jobs that rank before it and have waited for twice the cost get as many GPUs as it has

Jobs of the same rank: running ones by their last start, then preempted ones, the newest first, then the others, first come first
served. A job that has waited for `starve_limit` seconds in all goes before all others, and stays there when it runs; among these
the earliest submission is first. Lower-ranked jobs are preempted for it however many GPUs they hold. Where it still does not fit,
GPUs are kept free for it (`drain`).
"""

from __future__ import annotations

import math

import numpy as np

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import Values, known, pick, rounded, smaller, where
from tiresias.scheduler.estimates.claims import coarse, expected_remaining, next_coarse
from tiresias.scheduler.estimates.completed_jobs import Completed, next_fit
from tiresias.scheduler.estimates.hazard import NOTHING_KNOWN, Hazards, bucket_of, end_of
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policy import IncrementalPolicy, Policy, Rows
from tiresias.scheduler.rank.starve_limit import may_drain, next_change, until_change

_WAITING = int(JobState.WAITING)
_HOLD = 1.5  # how many times more promising a running job is than it looks
_WAIT_LIMIT = 2.0  # preemption costs that a job waits before running jobs are preempted for it


class Adaptive(IncrementalPolicy):
    """The adaptive policy with the hazards that it has learned."""

    spares = True

    def __init__(self, hazards: Hazards = NOTHING_KNOWN, refit_at: int = 1) -> None:
        self._hazards, self.refit_at = hazards, refit_at
        self._running = _prices(hazards, 0.0, _HOLD)
        self._waiting: dict[float, tuple[float, ...]] = {}

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the expected cost of the job's completion first."""
        waits, bucket = jobs.state == _WAITING, bucket_of(jobs.ran)
        cost = _cost(jobs, config)
        to_start = self._to_start(cost, bucket)
        seconds = where(waits, to_start, pick(self._running, bucket))
        price = _with_claims(jobs, seconds, where(waits, cost, 0.0), where(waits, 1.0, _HOLD)) * jobs.gpus
        place = known(where(waits, -jobs.preempted, jobs.last_start), math.inf)
        if config.starve_limit == math.inf:
            return 0, price, waits, place
        starves = _starves(jobs, config)
        return 0, where(starves, 0.0, price), where(starves, False, waits), where(starves, 0.0, place)

    def _to_start(self, cost: Values, bucket: Values) -> Values:
        """What a completion costs a job that has to be started, in seconds on GPUs. O(different costs) beside O(jobs)."""
        if isinstance(cost, np.ndarray):
            costs, which = np.unique(cost, return_inverse=True)
            return np.array([self._table(each) for each in costs.tolist()])[which, bucket] if cost.size else cost
        return pick(self._table(cost), bucket)

    def _table(self, cost: float) -> tuple[float, ...]:
        if cost not in self._waiting:
            self._waiting[cost] = _prices(self._hazards, cost, 1.0)
        return self._waiting[cost]

    def worth(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return the job's GPUs once it has waited for twice the preemption cost; inf for a starving job."""
        waited_enough = where(_preempts_from(jobs, config) <= now, jobs.gpus, 0.0)
        return where(_starves(jobs, config), math.inf, waited_enough)

    def drains(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return whether the waiting job starves and GPUs may be kept free for it now."""
        if not config.starving_first:
            return False
        since = jobs.waited - config.starve_limit
        return (jobs.state == _WAITING) & _starves(jobs, config) & may_drain(since, config)

    def first_after(self, config: PolicyConfig) -> float:
        """Return `starve_limit`."""
        return config.starve_limit

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """The moment at which a rank changes: a running job reaches the next bucket; the wait limit of a waiting job has passed,
        so that it goes before all others; GPUs are kept free for it no longer or again."""
        grows = smaller(now + end_of(bucket_of(jobs.ran)) - jobs.ran, _claim_falls(jobs, now))
        preempts_from = _preempts_from(jobs, config)
        rises = where(preempts_from > now, preempts_from, math.inf)
        if config.starve_limit < math.inf:
            until = config.starve_limit - jobs.waited
            drains = until_change(-until, config) if config.starving_first else math.inf
            rises = smaller(rises, now + where(_starves(jobs, config), drains, until))
        return where(jobs.state == _WAITING, rises, grows)

    def next_change(self, job: Rows, now: float, config: PolicyConfig) -> str:
        """Return what happens to a waiting job at the moment that `change` returns, in words."""
        if config.starving_first and _starves(job, config):
            return next_change(bool(self.drains(job, now, config)))
        if _preempts_from(job, config) > now:
            return "lower-ranked running jobs may be preempted for it (policy.preemption_cost)"
        return "it goes before all others (policy.starve_limit)"

    def standing(self, job: Rows, queue: int, now: float, config: PolicyConfig) -> str:
        """Return why the job has its rank: its run time and the cost of its completion."""
        price = self.keys(job, now, config, False)[1]
        if price == 0.0:
            return f"waited for {job.waited:,.0f} s, longer than policy.starve_limit"
        claimed = job.claimed_remaining
        if claimed is not None and claimed == claimed:  # nan is not equal to itself
            return f"about {claimed:,.0f} s left, as its program reports: a completion costs {price:,.0f} GPU-seconds"
        return f"run time {job.ran:,.0f} s, after which a completion costs {price:,.0f} GPU-seconds"

    def fitted(self, completed: Completed, there: Rows) -> Policy:
        """Return the policy that has learned from the ages of completed jobs and of the jobs in the cluster."""
        return Adaptive(Hazards.of(completed.service / completed.gpus, there.ran), next_fit(len(completed)))


def _prices(hazards: Hazards, cost: float, hold: float) -> tuple[float, ...]:
    """Seconds on GPUs per completion, for a job in each bucket."""
    return tuple(1.0 / (hold * index) for index in hazards.index(cost))


def _with_claims(jobs: Rows, by_age: Values, cost: Values, hold: Values) -> Values:
    """Return the expected seconds on GPUs of each job's completion, from its claim where it has one.

    Args:
        jobs: The jobs.
        by_age: The same from the ages alone, seconds.
        cost: Seconds that a start adds to a claim.
        hold: How many times more promising the job is than it looks.
    """
    claimed = jobs.claimed_remaining
    if claimed is None:
        return by_age
    trust = 1.0 if jobs.claim_trust is None else jobs.claim_trust
    left = where(jobs.state == _WAITING, claimed, coarse(claimed))
    return expected_remaining((left + cost) / hold, by_age, trust)


def _claim_falls(jobs: Rows, now: float) -> Values:
    """Return when the claim of a running job has fallen so far that its rank changes; inf: it has none."""
    claimed = jobs.claimed_remaining
    return math.inf if claimed is None else now + known(claimed - next_coarse(claimed), math.inf)


def _cost(jobs: Rows, config: PolicyConfig) -> Values:
    """Seconds that a preemption costs each job: measured, to the second, where that is known."""
    measured = jobs.preemption_cost
    return config.preemption_cost if measured is None else known(rounded(measured, 0), config.preemption_cost)


def _starves(jobs: Rows, config: PolicyConfig) -> Values:
    return jobs.waited + SERVICE_TOLERANCE >= config.starve_limit


def _preempts_from(jobs: Rows, config: PolicyConfig) -> Values:
    """Return the moment from which running jobs may be preempted for each waiting job."""
    return known(jobs.preempted, jobs.submit) + _WAIT_LIMIT * config.preemption_cost


ADAPTIVE = Adaptive()
