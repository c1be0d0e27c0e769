"""What the preemption of some jobs for another one is expected to gain, in seconds of completion time summed over these jobs.

Run times of jobs have heavy tails: a job that has run for long runs on for long. So each job is expected to run for as long again
as it has run, and for the mean run time of completed jobs and `policy.min_run` at least; a job whose program reports its progress
for the time that is left by its reports, as far as they are trusted.

The preemption spares the beneficiary a wait: until jobs that are expected to end have released enough. It costs each preempted job
the save, the restart and the repeated work (measured, else `policy.preemption_cost`), and the run of the beneficiary, for which it
waits.

Slurm counts the age of a requeued job from its requeue, so it queues behind the jobs that wait now. Seen as a fluid, the n waiting
jobs of a cluster of C GPUs each start sooner by the service left to the preempted job over C, and the preempted job waits for all
of theirs: the exchange shortens the sum of completion times where the job has more service left (GPU-seconds) than the waiting
jobs on average, by more than what its restart wastes. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.claims import expected_remaining
from tiresias.scheduler.model import Floats, Ints, Jobs, JobState
from tiresias.scheduler.size.elastic_jobs import preemption_costs

LEAST_RUN_RATIO = 2.0  # of the expected run of a preempted job to that of its beneficiary


class PreemptionGain(NamedTuple):
    """Expected seconds.

    Attributes:
        spared: The wait that the beneficiary is spared.
        cost: What the preempted jobs lose, all together.
    """

    spared: float
    cost: float

    @property
    def is_positive(self) -> bool:
        """Whether the wait is longer than what it costs."""
        return self.spared > self.cost


class RunEstimates:
    """Expected run times and costs of the jobs of a snapshot.

    Attributes:
        left: Seconds that each job is expected to run still, shape (jobs,).
        restart: Seconds that a preemption costs each job, shape (jobs,).
    """

    def __init__(self, jobs: Jobs, config: PolicyConfig, mean_run: float = 0.0) -> None:
        """mean_run: mean run time of completed jobs, seconds; 0: none has completed."""
        self._gpus, self.left, self.restart = jobs.gpus, _left(jobs, config, mean_run), preemption_costs(jobs, config)

    def may_precede(self, row: int, others: Ints) -> Ints:
        """Return the running jobs `others` that are expected to run for LEAST_RUN_RATIO times the waiting job, and their restart.

        What a job is expected to run for grows as it runs: jobs that have run for about as long would preempt each other in turn.
        """
        found: Ints = others[self.left[others] > LEAST_RUN_RATIO * self.left[row] + self.restart[others]]
        return found

    def outlasting(self, others: Ints, waiting: Ints, capacity: float) -> Ints:
        """Return the running jobs `others` that gain by queueing behind the waiting jobs, in the sum of all completion times.

        Args:
            others: Rows of running jobs.
            waiting: Rows of the jobs that wait for the same nodes, one or more.
            capacity: GPUs of these nodes.
        """
        mean = float((self.left[waiting] * self._gpus[waiting]).mean())
        wasted = self.restart[others] * (self._gpus[others] + capacity / len(waiting))
        found: Ints = others[self.left[others] * self._gpus[others] > mean + wasted]
        return found

    def gain(self, row: int, victims: Ints, wait: float) -> PreemptionGain:
        """Return the gain of a preemption for the waiting job. wait: its expected wait without it, seconds."""
        return PreemptionGain(wait, float((self.restart[victims] + self.left[row]).sum()))


def _left(jobs: Jobs, config: PolicyConfig, mean_run: float) -> Floats:
    by_age: Floats = np.maximum(jobs.ran, max(config.min_run, mean_run))
    if jobs.demoted is not None:
        unused = jobs.demoted & (jobs.state == JobState.RUNNING)
        by_age = np.where(unused, np.inf, by_age)  # it may hold unused GPUs for ever
    if jobs.claimed_remaining is None:
        return by_age
    trust = 1.0 if jobs.claim_trust is None else jobs.claim_trust
    found: Floats = np.asarray(expected_remaining(jobs.claimed_remaining, by_age, trust), np.float64)
    return found
