"""Adaptive: jobs that will probably end soon go first, estimated from their run times and from the completed jobs.

A 2D-Gittins policy without thresholds that learns while it runs. A job is ranked by the GPU-seconds that its completion is
expected to cost: its GPUs over its index (`hazard`), which depends on its age, the seconds that it has held GPUs in all runs, and
on its class of sizes (`size_hazards`). Where few jobs fit into the cluster at once, the number of its GPUs counts less
(`charged_gpus`). Names and users are not used; old completions are forgotten where the load changes (`forgetting`). A job whose
program reports its progress is ranked by its remaining seconds instead, as far as its reports are
trusted (`claims`). Where jobs report, new ones rank higher than their age suggests: a start shows soon how long such a job needs,
and a long one can be preempted at once. An order by the Gittins index has the shortest mean response time in a queue with one
server, and nearly so with many servers and setup times under heavy load (arXiv 2304.13231).

Preemptions cost time, by the knob `preemption_cost` and by what was measured:

  - a waiting job has to bring in the cost of its start, its own where that was measured: it counts into the index, of jobs that
    never ran too
  - a running job is ranked as if its completion cost a third less
  - a running job is preempted only where that shortens the sum of all completion times (`evict/cost_aware.py`), as follows

The preemption of a job of g GPUs that costs c seconds delays that job by c, and wastes c g GPU-seconds, which delays each of the n
waiting jobs of a cluster of C GPUs by c g / C, and those that arrive meanwhile: its loss is c (1 + 2 g n / C) seconds. It spares
each job that starts in its place a wait. How long that would have been is estimated in two ways, and the longer one counts:

  - as long again as it has waited already. That alone is the rule of rent or buy: the wait is the rent, the preemption the price,
    and the sum is at most twice that of a scheduler that sees the future (ski rental)
  - until running jobs that end have released its GPUs, by the hazards of all that run

With a `target_slowdown` of s, jobs are ranked by the moment at which they are due: s times the expected time to completion after
their submission. That time is the GPU-seconds of their completion over the mean number of GPUs of all jobs. So large jobs that were
submitted long ago are overtaken by fewer new ones, and the longest completion times are shorter.

Jobs of the same rank: running ones by their last start, then preempted ones, the newest first, then the others, first come first
served. A job starves that has waited for more whole times of `starve_limit` than it has run for. Each of these times divides the
cost by which it is ranked by `starve_factor`, and lower-ranked jobs are preempted for it whatever that costs. Where it still does
not fit, GPUs are kept free for it (`drain`). So a job is before every new one whose completion costs 1 / 2^n as much
once it has waited n times of `starve_limit` longer than it ran: its wait grows with the logarithm of its cost, and is finite.
Among jobs that have waited equally long the order is still that of their costs, so an overloaded cluster does not serve them first
come, first served. With `starve_factor` inf a starving job goes before all others, the earliest submission first. With a
`target_slowdown` no other job that is submitted after the moment at which a job is due goes before it; only such a factor of inf
changes that order. The rank does not stay improved to the end: where many jobs starve that run for weeks, they would take all GPUs
from the short ones.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tiresias.scheduler.config import SERVICE_TOLERANCE, PolicyConfig
from tiresias.scheduler.elementwise import (
    Columns,
    Values,
    either,
    interval,
    known,
    pick,
    smaller,
    where,
)
from tiresias.scheduler.estimates.age_buckets import ENDS, bucket_of, end_of
from tiresias.scheduler.estimates.charged_gpus import charged, drawn_to_mean
from tiresias.scheduler.estimates.claims import next_coarse
from tiresias.scheduler.estimates.completed_jobs import Completed, next_fit
from tiresias.scheduler.estimates.forgetting import NOTHING_SEEN, Forgetting, counts
from tiresias.scheduler.estimates.hazard import Hazards
from tiresias.scheduler.estimates.size_hazards import NO_JOBS_KNOWN, by_size, cell_of
from tiresias.scheduler.model import Ints, JobState
from tiresias.scheduler.rank.completion_price import CompletionPrices, price_of, reporting_share, seconds_of_preemption
from tiresias.scheduler.rank.policy import IncrementalPolicy, Policy, Rows
from tiresias.scheduler.rank.starve_limit import may_drain, next_change, until_change
from tiresias.scheduler.rank.waited_limits import (
    is_starving,
    until_served,
    until_starving,
    waited_in_words,
    waiting_discount,
)

_WAITING: Final = int(JobState.WAITING)
_RUNNING: Final = int(JobState.RUNNING)
_BACKLOG_SHARE: Final = 2.0  # jobs that wasted GPU time delays, for each job that waits now
_REVIEWS: Final = tuple(
    4.0**power for power in range(14)
)  # preemption costs that a job has waited when it is weighed again


class Adaptive(IncrementalPolicy):
    """The adaptive policy with the hazards that it has learned."""

    spares = True

    def __init__(
        self,
        hazards: Hazards = NO_JOBS_KNOWN,
        refit_at: int = 1,
        release_rate: float = math.inf,
        forgetting: Forgetting = NOTHING_SEEN,
        mean_gpus: float = 1.0,
        reporting: float = 0.0,
        drawn: float = 0.0,
    ) -> None:
        self._prices, self._forgetting = CompletionPrices(hazards, mean_gpus, reporting, drawn), forgetting
        self.refit_at, self.release_rate = refit_at, release_rate

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: the expected cost of the job's completion first, or the moment at which it is due."""
        return _keys(jobs, config, self._prices)

    def keys_and_change(self, job: Rows, now: float, config: PolicyConfig) -> tuple[tuple[Values, ...], float]:
        """Return `keys` and `change` of one running job. Those of a job that does not report follow from its bucket."""
        if job.claimed_remaining is not None:
            return super().keys_and_change(job, now, config)
        return _keys_and_change(job, now, config, self._prices)

    def cost(self, keys: tuple[Values, ...], config: PolicyConfig) -> Values:
        """Return the expected cost; 0 with a `target_slowdown`, where keys are moments."""
        return keys[1] if config.target_slowdown == math.inf else 0.0

    def worth(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return the seconds that the job has waited since it was last on GPUs; inf for a starving job."""
        return where(is_starving(jobs, config), math.inf, now - _since(jobs))

    def loss(self, jobs: Rows, backlog: float, now: float, config: PolicyConfig) -> Values:
        """Return the seconds by which the preemption of each job delays it and the waiting jobs, summed over jobs."""
        return seconds_of_preemption(jobs, config) * (1.0 + _BACKLOG_SHARE * backlog * jobs.gpus)

    def starves(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> Values:
        """Return whether the job goes before all others."""
        return is_starving(jobs, config) if config.starve_factor == math.inf else False

    def drains(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """Return whether the waiting job starves and GPUs may be kept free for it now."""
        if not config.starving_first:
            return False
        since = jobs.waited - config.starve_limit
        return (jobs.state == _WAITING) & is_starving(jobs, config) & may_drain(since, config)

    def first_after(self, job: Rows, config: PolicyConfig) -> float:
        """Return the seconds until the job goes before all others."""
        if config.starve_factor < math.inf:
            return math.inf
        return 0.0 if is_starving(job, config) else float(until_starving(job, config))

    def higher_after(self, job: Rows, config: PolicyConfig) -> float:
        """Return the seconds until the job has waited for a further `starve_limit`."""
        stays = config.starve_factor == math.inf or config.target_slowdown < math.inf
        return math.inf if stays else float(until_starving(job, config))

    def change(self, jobs: Rows, now: float, config: PolicyConfig) -> Values:
        """The moment at which a rank changes: a running job reaches the next bucket; the wait of a waiting job is weighed again
        against the cost of preemptions; it has waited for a further `starve_limit`; GPUs are kept free for it or no longer."""
        return _change(jobs, now, config)

    def next_change(self, job: Rows, now: float, config: PolicyConfig) -> str:
        """Return what happens to a waiting job at the moment that `change` returns, in words."""
        higher, drains = _rank_changes(job, now, config)
        if drains < higher:
            return next_change(bool(self.drains(job, now, config)))
        if self.permits_preemptions(job, now, config):
            return "lower-ranked running jobs may be preempted for it (policy.preemption_cost)"
        return f"it {'goes before all others' if config.starve_factor == math.inf else 'ranks higher'} (policy.starve_limit)"

    def permits_preemptions(self, job: Rows, now: float, config: PolicyConfig) -> bool:
        """Return whether its wait is weighed again against the cost of preemptions before its rank changes."""
        higher, drains = _rank_changes(job, now, config)
        return bool(drains >= higher and _reviewed(job, now, config) < higher)

    def standing(self, job: Rows, queue: int, now: float, config: PolicyConfig) -> str:
        """Return why the job has its rank: its run time and the cost of its completion."""
        first = config.starve_factor == math.inf
        if first and is_starving(job, config):
            return f"waited for {job.waited:,.0f} s, longer than policy.starve_limit"
        return self._cost_in_words(job, config) + waited_in_words(job, config)

    def _cost_in_words(self, job: Rows, config: PolicyConfig) -> str:
        price = f"a completion costs {price_of(job, job.state == _WAITING, config, self._prices):,.0f} GPU-seconds"
        if self._prices.drawn:
            counted = charged(job.gpus, self._prices.mean_gpus, self._prices.drawn)
            price += f", where its {job.gpus} GPUs count as {counted:,.1f}"
        claimed = job.claimed_remaining
        if claimed is not None and claimed == claimed:  # nan is not equal to itself
            return f"about {claimed:,.0f} s left, as its program reports: {price}"
        return f"run time {job.ran:,.0f} s, after which {price}"

    def discount(self, jobs: Rows, config: PolicyConfig) -> Values:
        """Return by what the time that the job has waited multiplies its cost."""
        return waiting_discount(jobs, config)

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        """Return the policy that has learned from the ages of completed jobs and of the jobs in the cluster."""
        ages, held = completed.service / completed.gpus, there.ran
        forgetting = self._forgetting.after(ages, held)
        counted = counts(len(ages), forgetting.half_life)
        hazards = by_size(ages, completed.gpus, held, there.gpus, counted)
        rates = hazards.per_second.ravel()[cell_of(there.gpus, held)] * there.gpus
        release_rate = float(rates[there.state == _RUNNING].sum())
        gpus, reporting = np.concatenate((completed.gpus, there.gpus)), reporting_share(held, there.claimed_remaining)
        drawn = drawn_to_mean(gpus, cluster, len(ages))
        return Adaptive(hazards, next_fit(len(ages)), release_rate, forgetting, _mean(gpus), reporting, drawn)


def _keys(jobs: Rows, config: PolicyConfig, prices: CompletionPrices) -> Columns:
    waits = jobs.state == _WAITING
    price = _ranked_by(jobs, price_of(jobs, waits, config, prices), config, prices)
    moment = where(waits, -jobs.preempted, jobs.last_start)
    return _in_order(jobs, config, price, waits, known(moment, math.inf))


def _keys_and_change(job: Rows, now: float, config: PolicyConfig, prices: CompletionPrices) -> tuple[Columns, float]:
    ran = job.ran
    bucket = bucket_of(ran)
    price = _ranked_by(job, prices.of_running(job.gpus)[bucket], config, prices)
    change = until_served(job, now + ENDS[bucket] - ran, now, config)
    return _in_order(job, config, price, False, job.last_start), change


def _ranked_by(jobs: Rows, price: Values, config: PolicyConfig, prices: CompletionPrices) -> Values:
    """Return the price, lower the longer the job has waited, or with a `target_slowdown` the moment at which the job is due."""
    if config.target_slowdown == math.inf:
        return price * waiting_discount(jobs, config)
    return jobs.submit + config.target_slowdown / prices.mean_gpus * price


def _in_order(jobs: Rows, config: PolicyConfig, price: Values, waits: Values, place: Values) -> Columns:
    """Return the sort keys: starving jobs before all others where `starve_factor` is inf."""
    if config.starve_limit == math.inf or config.starve_factor < math.inf:
        return 0, price, waits, place
    starves = is_starving(jobs, config)
    return 0, where(starves, -math.inf, price), where(starves, False, waits), where(starves, 0.0, place)


def _change(jobs: Rows, now: float, config: PolicyConfig) -> Values:
    return either(jobs.state == _WAITING, _rises, _grows, jobs, now, config)[0]


def _grows(jobs: Rows, now: float, config: PolicyConfig) -> Columns:
    """When the rank of a running job changes."""
    ran = jobs.ran
    aged = until_served(jobs, now + end_of(bucket_of(ran)) - ran, now, config)
    return (aged if jobs.claimed_remaining is None else smaller(aged, _claim_falls(jobs, now)),)


def _rank_changes(job: Rows, now: float, config: PolicyConfig) -> tuple[float, float]:
    """Return when a waiting job ranks higher, and when GPUs are kept free for it or no longer; inf for never."""
    starves = config.starving_first and is_starving(job, config)
    higher = math.inf if starves and config.starve_factor == math.inf else now + float(until_starving(job, config))
    return higher, now + until_change(job.waited - config.starve_limit, config) if starves else math.inf


def _rises(jobs: Rows, now: float, config: PolicyConfig) -> Columns:
    """When more may be done for a waiting job."""
    reviewed = _reviewed(jobs, now, config)
    if config.starve_limit == math.inf:
        return (reviewed,)
    since, later = jobs.waited - config.starve_limit, until_starving(jobs, config)
    drains = until_change(since, config) if config.starving_first else math.inf
    if config.starve_factor < math.inf:
        drains = smaller(drains, later)
    return (smaller(reviewed, now + where(is_starving(jobs, config), drains, later)),)


def _claim_falls(jobs: Rows, now: float) -> Values:
    """Return when the claim of a running job has fallen so far that its rank changes; inf: it has none."""
    claimed = jobs.claimed_remaining
    return math.inf if claimed is None else now + known(claimed - next_coarse(claimed), math.inf)


def _since(jobs: Rows) -> Values:
    """Return the moment from which each waiting job waits for GPUs."""
    return known(jobs.preempted, jobs.submit)


def _reviewed(jobs: Rows, now: float, config: PolicyConfig) -> Values:
    """Return the next moment at which each waiting job has waited for 1, 4, 16, ... preemption costs; inf if they cost nothing."""
    cost, since = config.preemption_cost, _since(jobs)
    if not cost:
        return math.inf
    return since + cost * pick((*_REVIEWS, math.inf), interval(_REVIEWS, (now - since + SERVICE_TOLERANCE) / cost))


def _mean(gpus: Ints) -> float:
    return float(gpus.mean()) if len(gpus) else 1.0


ADAPTIVE = Adaptive()
