"""What a completion of each job is expected to cost, in GPU-seconds, preemptions included: the price by which `adaptive` ranks.

It follows from the hazards of completed jobs, or from the remaining work that a program reports, as far as that is trusted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.elementwise import Columns, Values, either, known, pick, rounded, where
from tiresias.scheduler.estimates.charged_gpus import charged
from tiresias.scheduler.estimates.claims import FIRST_CLAIM_S, coarse, expected_remaining
from tiresias.scheduler.estimates.hazard import Hazards
from tiresias.scheduler.estimates.size_hazards import cell_of, cells_of
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.policy import Rows

_HOLD: Final = 1.5  # how many times more promising a running job is than it looks


class CompletionPrices:
    """Seconds on GPUs per completion of a job in each cell (`cell_of`), preemptions included.

    Attributes:
        running: Of running jobs.
        mean_gpus: GPUs of all jobs, on average.
        drawn: As of `charged`.
    """

    def __init__(self, hazards: Hazards, mean_gpus: float, reporting: float, drawn: float) -> None:
        self._hazards, self.mean_gpus, self._reporting, self.drawn = hazards, mean_gpus, reporting, drawn
        self.running = self._table(0.0, _HOLD)
        self._waiting: dict[float, tuple[float, ...]] = {}
        self._of_running: dict[int, list[float]] = {}

    def of_running(self, gpus: int) -> list[float]:
        """Return the GPU-seconds per completion of running jobs of so many GPUs, by their bucket."""
        if gpus not in self._of_running:
            counted = charged(gpus, self.mean_gpus, self.drawn)
            self._of_running[gpus] = [self.running[cell] * counted for cell in cells_of(gpus)]
        return self._of_running[gpus]

    def waiting(self, cost: float) -> tuple[float, ...]:
        """Return those of jobs whose start costs so many seconds."""
        if cost not in self._waiting:
            self._waiting[cost] = self._table(cost, 1.0)
        return self._waiting[cost]

    def _table(self, cost: float, hold: float) -> tuple[float, ...]:
        return tuple((1.0 / (hold * self._hazards.index(cost, self._reporting))).ravel().tolist())


def price_of(jobs: Rows, waits: Values, config: PolicyConfig, prices: CompletionPrices) -> Values:
    """GPU-seconds that a completion of each job is expected to take."""
    seconds = _with_claims(jobs, _to_complete(jobs, waits, config, prices), waits, config)
    return seconds * (charged(jobs.gpus, prices.mean_gpus, prices.drawn) if prices.drawn else jobs.gpus)


def _to_complete(jobs: Rows, waits: Values, config: PolicyConfig, prices: CompletionPrices) -> Values:
    """Seconds on GPUs that a completion of each job is expected to take, preemptions included.

    The order depends on no other estimate of remaining time than this one and the claims of programs.
    """
    return either(waits, _to_start, _to_end, cell_of(jobs.gpus, jobs.ran), jobs, config, prices)[0]


def _to_start(cell: Values, jobs: Rows, config: PolicyConfig, prices: CompletionPrices) -> Columns:
    """What a completion costs jobs that have to be started. O(different costs) beside O(jobs)."""
    cost = seconds_of_preemption(jobs, config)
    if isinstance(cost, np.ndarray):
        costs, which = np.unique(cost, return_inverse=True)
        return (np.array([prices.waiting(each) for each in costs.tolist()])[which, cell] if cost.size else cost,)
    return (pick(prices.waiting(cost), cell),)


def _to_end(cell: Values, jobs: Rows, config: PolicyConfig, prices: CompletionPrices) -> Columns:
    """What a completion costs jobs that run."""
    return (pick(prices.running, cell),)


def _with_claims(jobs: Rows, by_age: Values, waits: Values, config: PolicyConfig) -> Values:
    """Return the expected seconds on GPUs of each job's completion, from its claim where it has one, else `by_age`."""
    claimed = jobs.claimed_remaining
    if claimed is None:
        return by_age
    trust = 1.0 if jobs.claim_trust is None else jobs.claim_trust
    left = where(waits, claimed + seconds_of_preemption(jobs, config), coarse(claimed) / _HOLD)
    return expected_remaining(left, by_age, trust)


def seconds_of_preemption(jobs: Rows, config: PolicyConfig) -> Values:
    """Seconds that a preemption costs each job: measured, to the second, where that is known."""
    measured = jobs.preemption_cost
    return config.preemption_cost if measured is None else known(rounded(measured, 0), config.preemption_cost)


def reporting_share(ran: Floats, claimed: Floats | None) -> float:
    """Return the chance that a job reports: the share of those that have run for long enough; one more counts that does not.

    Twice FIRST_CLAIM_S is long enough: a run time contains the time until the first step.
    """
    if claimed is None:
        return 0.0
    known = ~np.isnan(claimed[ran > 2 * FIRST_CLAIM_S])
    return float(known.sum() / (len(known) + 1))
