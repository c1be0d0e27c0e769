"""Mode assist in simulations: Slurm with backfill starts the jobs, and `scheduler/assist` preempts for its first job.

Slurm is simulated as in the policy `best_effort`: first come, first served, a job that does not fit is overtaken. A preempted job
queues anew, as Slurm counts its age from the requeue. Fair share, QOS and time limits are not simulated.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.assist.assist_plan import assist
from tiresias.scheduler.assist.slurm_queue import SlurmHead, SlurmQueue
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.elementwise import Values, known, where
from tiresias.scheduler.estimates.completed_jobs import Completed, next_fit
from tiresias.scheduler.model import Effect, JobState, Plan, Snapshot
from tiresias.scheduler.rank.policy import IncrementalPolicy, Rows

_PERIOD_S = 300.0  # between two decisions while a job waits: the running jobs are expected to run for longer


class SimulatedAssist(IncrementalPolicy):
    """Slurm's order in mode assist: running jobs, then the waiting ones by the time since which they wait."""

    preempts = False

    def __init__(self, mean_run: float = 0.0, refit_at: float = 1.0) -> None:
        """mean_run: As of `SlurmQueue`."""
        self.mean_run, self.refit_at = mean_run, refit_at

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> SimulatedAssist:
        """Return the policy with the mean run time of the completed jobs."""
        return SimulatedAssist(completed.mean_run(np.asarray(there.ran, np.float64)), next_fit(len(completed)))

    def keys(self, jobs: Rows, now: float, config: PolicyConfig, promoted: Values) -> tuple[Values, ...]:
        """Return the sort keys: one queue, running jobs first, then first come, first served."""
        waits = jobs.state == JobState.WAITING
        return 0, where(waits, 1, 0), where(waits, known(jobs.preempted, jobs.submit), 0.0)

    def turn(self, now: float, config: PolicyConfig) -> float:
        """Return the moment of the next decision while a job waits."""
        return (now // _PERIOD_S + 1.0) * _PERIOD_S


ASSIST = SimulatedAssist()


def assisted(snapshot: Snapshot, policy: SimulatedAssist, config: PolicyConfig) -> Plan:
    """Return what Slurm starts; where it starts nothing, the preemptions for its first waiting job.

    O(jobs log jobs + placements).
    """
    ranking = policy.rank(snapshot, config)
    by_slurm = decide(snapshot, config, policy, ranking)
    waiting = ranking.order[snapshot.jobs.state[ranking.order] == JobState.WAITING]
    if (by_slurm.effect == Effect.START).any() or not len(waiting) or _releases(snapshot):
        return by_slurm
    queue = SlurmQueue(ranking.order, (SlurmHead(int(waiting[0]), waiting, config),), mean_run=policy.mean_run)
    return assist(snapshot, queue, config)


def _releases(snapshot: Snapshot) -> bool:
    """Whether GPUs are being released, for which Slurm has a job."""
    return bool(np.any(snapshot.jobs.state == JobState.RELEASING))
